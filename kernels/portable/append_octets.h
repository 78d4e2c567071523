// Rows of new tokens, whose columns are read in groups of 8 neighbours, octets: a lane reads two of each row,
// and requests both before it uses the first one.
#pragma once

#include "kernels/portable/append_side.h"

namespace regard {

constexpr i32 width = append_width;

/// Eight neighbouring numbers as they are in memory.
template <DType dtype>
struct Octet {
  u32 words[width * bytes_of<dtype> / 4];
};

template <DType dtype>
REGARD_DEVICE Octet<dtype> octet_of(const float (&x)[width]) {
  Octet<dtype> octet;
#pragma unroll
  for (i32 i = 0; i < width * bytes_of<dtype> / 4; ++i) {
    if constexpr (dtype == DType::fp32) {
      octet.words[i] = bits_as<u32>(x[i]);
    } else if constexpr (bytes_of<dtype> == 2) {
      octet.words[i] = pair<dtype>(x[2 * i], x[2 * i + 1]);
    } else if constexpr (dtype == DType::int8) {
      octet.words[i] = eight_bits_of<dtype>(x[4 * i]) | eight_bits_of<dtype>(x[4 * i + 1]) << 8 |
                       eight_bits_of<dtype>(x[4 * i + 2]) << 16 | eight_bits_of<dtype>(x[4 * i + 3]) << 24;
    } else {
      octet.words[i] = u32{fp8_pair<dtype>(x[4 * i], x[4 * i + 1])} |
                       u32{fp8_pair<dtype>(x[4 * i + 2], x[4 * i + 3])} << 16;
    }
  }
  return octet;
}

/// Stores to neighbouring elements at an aligned address, or to elements that are `step` apart.
template <DType dtype>
REGARD_DEVICE void store_octet(u8* to, i32 step, const Octet<dtype>& octet) {
  constexpr i32 bytes = bytes_of<dtype>;
  const auto& words = octet.words;
  if (step == 1) {
    if constexpr (bytes == 1) {
      *reinterpret_cast<uint2*>(to) = uint2{words[0], words[1]};
    } else {
#pragma unroll
      for (i32 i = 0; i < width * bytes / 4; i += 4)
        reinterpret_cast<uint4*>(to)[i / 4] = uint4{words[i], words[i + 1], words[i + 2], words[i + 3]};
    }
    return;
  }
#pragma unroll
  for (i32 i = 0; i < width; ++i) {
    const u32 bits = words[i * bytes / 4] >> i * bytes % 4 * 8;
    if constexpr (bytes == 1)
      *to = static_cast<u8>(bits);
    else if constexpr (bytes == 2)
      *reinterpret_cast<u16*>(to) = static_cast<u16>(bits);
    else
      *reinterpret_cast<u32*>(to) = bits;
    to += step * bytes;
  }
}

/// The first columns of a lane's two octets; an octet past the row's end does not exist. Both columns of each
/// pair that rope rotates belong to one lane.
struct Place {
  i32 first[2];
};

/// With rope=half the first lanes each have an octet of the first half of the rotated columns, and its
/// partner of the second half: the number of these lanes.
REGARD_DEVICE i32 lanes_of_halves(const Arguments& a) {
  return static_cast<Rope>(a.added.rope) == Rope::half ? a.added.rotary / 2 / width : 0;
}
/// The place of this lane among the columns from `block` on.
REGARD_DEVICE Place place_of_lane(i32 block, i32 lanes_of_row, i32 of_halves) {
  const i32 number = lane() & (lanes_of_row - 1);
  if (number < of_halves) return {{number * width, (number + of_halves) * width}};
  const i32 first = block + (number + of_halves) * width;
  return {{first, first + (lanes_of_row - of_halves) * width}};
}

/// The angles that rotate a lane's columns.
struct Angles {
  float cos[width], sin[width];
};

/// Loads four neighbouring numbers of a table from column `first` on and, if `both`, from `second` on.
template <DType dtype>
REGARD_DEVICE void load_angles(float (&x)[width], const Rows& table, i64 row, i32 first, i32 second,
                               bool both) {
  constexpr i32 half = width / 2, bytes = bytes_of<dtype>;
  const u8* const from = static_cast<const u8*>(table.data) + row * table.row * bytes;
  if constexpr (bytes > 1) {  // 8-bit tokens are not rotated
    if (reinterpret_cast<u64>(from) % (half * bytes) == 0) {
      float low[half], high[half] = {};
      load_elements<dtype>(low, from + first * bytes);
      if (both) load_elements<dtype>(high, from + second * bytes);
#pragma unroll
      for (i32 i = 0; i < half; ++i) x[i] = low[i], x[half + i] = high[i];
      return;
    }
  }
#pragma unroll
  for (i32 i = 0; i < width; ++i)
    if (i < half || both) x[i] = load_element<dtype>(from, i < half ? first + i : second + i - half);
}

/// Loads the angles of a lane that rotates its first octet. Its second octet has the other halves of the same
/// pairs, or pairs of its own, if it is rotated at all.
REGARD_DEVICE void load_angles(Angles& angles, const NewTokens& added, i64 row, const Place& place) {
  const bool halves = static_cast<Rope>(added.rope) == Rope::half;
  const i32 first = halves ? place.first[0] : place.first[0] / 2;
  const i32 second = halves ? first + width / 2 : place.first[1] / 2;
  const bool both = halves || place.first[1] < added.rotary;
  if (static_cast<DType>(added.rope_type) == DType::fp32) {
    load_angles<DType::fp32>(angles.cos, added.cos, row, first, second, both);
    load_angles<DType::fp32>(angles.sin, added.sin, row, first, second, both);
  } else {
    load_angles<config::dtype>(angles.cos, added.cos, row, first, second, both);
    load_angles<config::dtype>(angles.sin, added.sin, row, first, second, both);
  }
}

REGARD_DEVICE void rotate(float (&x)[2][width], const NewTokens& added, const Angles& angles,
                          const Place& place) {
  if (static_cast<Rope>(added.rope) == Rope::half) {
#pragma unroll
    for (i32 i = 0; i < width; ++i) {
      const float first = x[0][i], second = x[1][i];
      x[0][i] = rotated_first(first, second, angles.cos[i], angles.sin[i]);
      x[1][i] = rotated_second<Rope::half>(first, second, angles.cos[i], angles.sin[i]);
    }
    return;
  }
#pragma unroll
  for (i32 octet = 0; octet < 2; ++octet) {
    if (place.first[octet] < added.rotary) {
#pragma unroll
      for (i32 i = 0; i < width; i += 2) {
        const float first = x[octet][i], second = x[octet][i + 1];
        const float cos = angles.cos[(octet * width + i) / 2], sin = angles.sin[(octet * width + i) / 2];
        x[octet][i] = rotated_first(first, second, cos, sin);
        x[octet][i + 1] = rotated_second<Rope::interleaved>(first, second, cos, sin);
      }
    }
  }
}

/// Where a lane reads its octets of one head's row; `second`: the distance of the second octet in bytes.
struct Source {
  const u8* first;
  i32 second;
  bool has[2];
};
REGARD_DEVICE Source source_of(const Side& side, const Place& place) {
  constexpr i32 bytes = bytes_of<config::dtype>;
  return {side.from + static_cast<i64>(place.first[0]) * bytes,
          (place.first[1] - place.first[0]) * bytes,
          {place.first[0] < side.n, place.first[1] < side.n}};
}

/// Where a lane writes its octets of one head's row; `second` as in Source.
struct Destination {
  u8* first;
  i32 second;
};
template <DType dtype>
REGARD_DEVICE Destination destination_of(const Side& side, const Place& place) {
  const i64 first = side.columns.element(place.first[0]), second = side.columns.element(place.first[1]);
  return {side.to + first * bytes_of<dtype>, static_cast<i32>(second - first) * bytes_of<dtype>};
}

/// A lane's part of a row.
struct Loaded {
  Octet<config::dtype> octets[2];
};

REGARD_DEVICE void load_octets(Loaded& loaded, const Source& source, bool exists) {
  loaded = {};
  if (exists && source.has[0]) load_words(loaded.octets[0].words, source.first);
  if (exists && source.has[1]) load_words(loaded.octets[1].words, source.first + source.second);
}

/// The inverse of the factor that the caller gives for a head; 1 if there is none.
REGARD_DEVICE float given_inverse(const Arguments& a, const Side& side, i32 head) {
  if (same_type || !side.has_factors || has_token_factors(a) || head >= side.heads) return 1;
  return 1.0f / side.factor[head * side.next_factor];
}

/// Computes and stores the factor of a row, where each token has one, and returns its inverse. Called by a
/// whole wave.
REGARD_DEVICE float made_inverse(const float (&x)[2][width], const PortableAppendArguments& a,
                                 const Side& side, i32 head) {
  const i32 lanes_of_row = lanes_of(a);
  float most = 0;
#pragma unroll
  for (i32 i = 0; i < 2 * width; ++i) most = fmaxf(most, fabsf(x[i / width][i % width]));
  const float factor = factor_of_largest(largest_of_lanes(most, lanes_of_row));
  if (head < side.heads && (lane() & (lanes_of_row - 1)) == 0) side.factor[head * side.next_factor] = factor;
  return 1.0f / factor;
}

/// Rotates, converts and stores this lane's octets of one head's row, of the cache or of queries. Called by a
/// whole wave.
template <DType dtype, bool in_cache>
REGARD_DEVICE void store_octets(const PortableAppendArguments& a, const Side& side, i32 head,
                                const Place& place, const Angles& angles, float inverse, const Loaded& loaded,
                                const Source& source, const Destination& to) {
  Octet<dtype> octets[2];
  if constexpr (dtype == config::dtype) octets[0] = loaded.octets[0], octets[1] = loaded.octets[1];
  if constexpr (bytes_of<config::dtype> > 1) {
    if (dtype != config::dtype || side.table_row >= 0) {
      float x[2][width];
#pragma unroll
      for (i32 i = 0; i < 2; ++i) elements_of<config::dtype>(x[i], loaded.octets[i].words);
      if (side.table_row >= 0 && place.first[0] < a.added.rotary) rotate(x, a.added, angles, place);
      if constexpr (in_cache && bytes_of<dtype> == 1) {
        if (has_token_factors(a)) inverse = made_inverse(x, a, side, head);
#pragma unroll
        for (i32 i = 0; i < 2 * width; ++i) x[i / width][i % width] *= inverse;
      }
#pragma unroll
      for (i32 i = 0; i < 2; ++i) octets[i] = octet_of<dtype>(x[i]);
    }
  }
  const bool exists = head < side.heads;
  if (exists && source.has[0]) store_octet(to.first, side.columns.step, octets[0]);
  if (exists && source.has[1]) store_octet(to.first + to.second, side.columns.step, octets[1]);
}

}  // namespace regard
