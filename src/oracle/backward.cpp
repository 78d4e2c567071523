#include <atomic>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "oracle/passes.h"
#include "oracle/row.h"
#include "oracle/sums.h"
#include "oracle/tolerance.h"
#include "oracle/writer.h"

namespace regard::oracle {
namespace {

/// The gradients of captured tensors: each is a sum over all scores that read the element.
class CapturedSums {
 public:
  explicit CapturedSums(const Inputs& inputs) : inputs_(inputs) {
    for (const function::LoadDerivative& one : inputs.functions().derivatives().loads) {
      const regard_tensor& tensor = inputs.functions().tensor_of_load(one.load);
      std::int64_t count = 1;
      for (int i = 0; i < tensor.rank; ++i) count *= tensor.shape[i];
      sums_[inputs.functions().gradient_of_load(one.load)].resize(static_cast<std::size_t>(count));
    }
  }

  bool empty() const { return sums_.empty(); }

  /// Adds a score's gradient.
  void add(PlaceFunctions& functions, const FunctionPlace& place, const function::Value& scaled, double value,
           double error, double common, double shared, bool& sure) {
    for (const function::LoadDerivative& one : inputs_.functions().derivatives().loads) {
      const function::Value d = functions.derivative(one, scaled, place, sure);
      if (d.real == 0 && d.bound == 0) continue;
      const std::int64_t element = functions.element(one.load, scaled, place, sure);
      const std::lock_guard lock(mutex_);
      Sum& sum = sums_[inputs_.functions().gradient_of_load(one.load)][static_cast<std::size_t>(element)];
      const double term = value * d.real;
      const double own = error * std::fabs(d.real) + std::fabs(value) * certain(d.bound);
      sum.value += term;
      sum.squares += term * term;
      sum.variance += own * own;
      sum.common += common * d.real;
      sum.shared += shared * std::fabs(term);
      ++sum.terms;
    }
  }

  void write(Outputs& outputs, const Precision& precision, bool sure) const {
    for (const auto& [role, elements] : sums_) {
      Output& output = outputs[role];
      for (const Sum& sum : elements) {
        const double reach = std::fabs(sum.value) + 3 * std::sqrt(sum.squares);
        const double error =
            std::sqrt(sum.variance) + std::fabs(sum.common) + sum.shared + precision.sum(sum.terms) * reach;
        output.value.push_back(sum.value);
        output.error.push_back(sure ? error : Output::any_result);
      }
    }
  }

 private:
  struct Sum {
    double value = 0, squares = 0, variance = 0, common = 0, shared = 0;
    std::int64_t terms = 0;
  };

  const Inputs& inputs_;
  std::map<regard_role, std::vector<Sum>> sums_;
  std::mutex mutex_;
};

/// One query head of one sequence. The derivation, with w = keep / keep probability:
///   O = (P w) V                  dV = (P w)^T dO
///   dP = w (dO V^T)              D = rowsum(P dP) - dLSE = rowsum(dO O) - dLSE
///   dS = P (dP - D)              the bias gets dS; the sink's logit, which has no value, gets -P_sink D
///   dX = dS (1 - tanh^2)         through the soft cap
///   dQ = scale dX K              dK = scale dX^T Q
struct Head {
  const Inputs& inputs;
  const Precision& precision;
  const Matrix &k, &v;
  double largest_k, largest_v;
  Sums &grad_k, &grad_v;
  const Writer &write_q, &write_bias, &write_sink;
  CapturedSums* captured;  ///< null: there are none, or only some rows are computed
  bool sure = true;        ///< whether all rows are `sure`

  void run(std::int64_t b, std::int64_t h, const Options& options);
};

/// A number, and its largest error in a kernel.
struct Bounded {
  double value = 0, error = 0;
};

/// D of a row. It comes from the same O that the kernel reads; but D of an unrounded O is equally correct.
Bounded delta_of(const double* o, const double* d_o, double d_lse, const Problem& problem,
                 const Precision& precision) {
  const std::int64_t columns = problem.dv;
  const auto out = static_cast<regard_dtype>(problem.out);
  const double unit = format(out).unit(), near_zero = lost_near_zero(out);
  const Dot sum = dot(d_o, o, columns);
  const double fp32_error = precision.product_of(norm(d_o, columns), norm(o, columns), columns);
  double variance = fp32_error * fp32_error, size = 0;
  for (std::int64_t c = 0; c < columns; ++c) {
    const double error = unit * std::fabs(o[c]) + near_zero;
    variance += d_o[c] * d_o[c] * error * error;
    size += std::fabs(d_o[c]);
  }
  const double common =
      (certain(precision.product + unit) + precision.sum(columns)) * sum.peak + certain(near_zero) * size;
  return {sum.value - d_lse, std::sqrt(variance) + common + precision.sum(2) * std::fabs(sum.value - d_lse)};
}

/// The gradient of one score. Two parts of its error have the same sign in many terms of a sum, and so do not
/// average out.
struct ScoreGradient {
  double value, error;
  double inherited;  ///< from D, which is the same for all keys of a row, and from dP
  double common;     ///< `inherited`, with one sign for equal rows, which have the same D and dP
  double shared;     ///< of the weight, relative
};

/// What the gradients of a row's scores come from.
struct RowGradient {
  const Problem& problem;
  const Precision& precision;
  const Row& row;
  const RowError& score_error;  ///< of the scores
  const RowError& relative;     ///< of the weights
  const double* d_o;
  double scale;
  double fp32_error;  ///< of an element of dO V^T
  Bounded delta;

  /// dP
  Bounded of_weight(std::size_t key, const double* v) const {
    const Dot product = dot(d_o, v, problem.dv);
    return {row.keep[key] * product.value,
            row.keep[key] * (fp32_error + precision.sum(problem.dv) * product.peak)};
  }

  /// dS, of a key whose weight is not 0
  ScoreGradient of_score(std::size_t key, const double* v) const {
    const Bounded d_p = of_weight(key, v);
    const double weight = row.weight[key], difference = d_p.value - delta.value;
    const double inherited = weight * (delta.error + d_p.error);
    return {
        weight * difference,
        precision.weight(weight, row.log_weight[key], relative.of_each()) * std::fabs(difference) + inherited,
        inherited, std::copysign(inherited, delta.value),
        precision.relative(row.log_weight[key], relative.shared)};
  }

  /// dX times the scale, as a term of the sum dK; the sum dQ has another common error.
  Term of_key(std::size_t key, const ScoreGradient& d_s, double through) const {
    const double value = through * d_s.value;
    const double slope_error = precision.slope(row.slope[key], score_error.of_each(), problem.softcap);
    const double of_function = std::fabs(scale * d_s.value) * row.slope_error[key];
    return {value,
            (precision.product + slope_error) * std::fabs(value) + precision.least_grad + of_function +
                std::fabs(scale) * std::max(1.0, std::fabs(row.slope[key])) * d_s.error,
            d_s.shared + certain(precision.product) + slope_error, smallest_normal * (1 + std::fabs(scale)),
            through * d_s.common};
  }

  /// The sink's logit, which has no value
  Bounded of_sink() const {
    return {-row.sink_weight * delta.value,
            row.sink_weight * delta.error +
                precision.weight(row.sink_weight, 0, relative.of_each()) * std::fabs(delta.value)};
  }
  double common_of_sink() const {
    return row.sink_weight *
           std::copysign(delta.error + relative.shared * std::fabs(delta.value), delta.value);
  }
};

void Head::run(std::int64_t b, std::int64_t h, const Options& options) {
  const Problem& problem = inputs.problem();
  const Sequence& sequence = inputs.sequence(b);
  const Matrix q = inputs.matrix(REGARD_Q, b, h), o = inputs.matrix(REGARD_O, b, h),
               grad_o = inputs.matrix(REGARD_GRAD_O, b, h);
  const double scale = scale_of(problem);
  const bool whole = grad_k.value.rows > 0;  // dQ alone needs no sums over all rows
  Row row;
  std::optional<PlaceFunctions> functions;
  if (captured != nullptr) functions.emplace(inputs.functions());
  Sums grad_q(1, problem.d, precision, Common::yes);
  grad_q.expect(k);
  grad_v.expect(grad_o);
  grad_k.expect(q);

  for (const std::int64_t i : spread(sequence.sq, options.max_rows)) {
    const double* d_o = grad_o.row(i);
    compute_row(inputs, b, h, i, q.row(i), k, largest_k, row);
    const RowError score_error = precision.scores(row, problem.d), relative = precision.row(row, score_error);

    for (std::int64_t j = 0; j < sequence.sk && whole; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (row.weight[at] * row.keep[at] == 0) continue;
      grad_v.add(j, weight_of(row, at, precision, relative), d_o);
    }

    const RowGradient gradient{
        problem,
        precision,
        row,
        score_error,
        relative,
        d_o,
        scale,
        precision.product_of(norm(d_o, problem.dv), largest_v, problem.dv),
        delta_of(o.row(i), d_o, inputs.grad_lse(b, h, sequence.first_q + i), problem, precision),
    };
    grad_q.clear();
    sure = sure && row.sure;
    for (std::int64_t j = 0; j < sequence.sk; ++j) {
      const auto at = static_cast<std::size_t>(j);
      if (row.weight[at] == 0) continue;
      const ScoreGradient d_s = gradient.of_score(at, v.row(j));
      if (captured != nullptr)
        captured->add(*functions, inputs.place(b, h, i, j), row.scaled[at], d_s.value, d_s.error, d_s.common,
                      d_s.shared, sure);
      if (write_bias) {
        const double of_weight = d_s.shared * std::fabs(d_s.value);
        const double larger = std::fabs(d_s.common) > of_weight ? d_s.common : d_s.value;
        write_bias.add(b, h, i, j, d_s.value, d_s.error,
                       std::copysign(std::fabs(d_s.common) + of_weight, larger));
      }
      const double through = scale * row.slope[at];
      Term term = gradient.of_key(at, d_s, through);
      if (whole) grad_k.add(j, term, q.row(i));
      term.common = through * d_s.inherited;  // of the row's D: none of it averages out over the keys
      grad_q.add(0, term, k.row(j));
    }
    for (std::int64_t c = 0; c < problem.d; ++c)
      write_q.set(b, h, sequence.first_q + i, c, grad_q.value.row(0)[c],
                  row.sure ? grad_q.error(0, c) : Output::any_result);
    if (write_sink) {
      const Bounded sink = gradient.of_sink();
      write_sink.add(0, h, 0, 0, sink.value, sink.error, gradient.common_of_sink());
    }
  }
}

void write_keys(const Sums& sums, std::int64_t b, std::int64_t head, std::int64_t first, bool sure,
                const Writer& writer) {
  for (std::int64_t j = 0; j < sums.value.rows; ++j)
    for (std::int64_t c = 0; c < sums.value.columns; ++c)
      writer.set(b, head, first + j, c, sums.value.row(j)[c], sure ? sums.error(j, c) : Output::any_result);
}

}  // namespace

Outputs backward(const Inputs& inputs, const Options& options) {
  const Problem& problem = inputs.problem();
  const Precision precision(problem);
  Outputs outputs;
  const Writer write_q(problem, REGARD_GRAD_Q, outputs);
  Writer write_k, write_v, write_bias, write_sink;
  if (options.max_rows == 0) {
    write_k = Writer(problem, REGARD_GRAD_K, outputs);
    write_v = Writer(problem, REGARD_GRAD_V, outputs);
  }
  if (options.max_rows == 0 && options.max_heads == 0) {
    write_bias = Writer(problem, REGARD_GRAD_BIAS, outputs, true);
    write_sink = Writer(problem, REGARD_GRAD_SINK, outputs, true);
  }

  CapturedSums captured(inputs);
  const bool all = options.max_rows == 0 && options.max_heads == 0 && !problem.grads.empty();
  std::atomic<bool> all_sure = true;

  const auto head = [&](std::int64_t b, std::int64_t kv_head) {
    const Matrix k = inputs.matrix(REGARD_K, b, kv_head), v = inputs.matrix(REGARD_V, b, kv_head);
    const std::int64_t keys = options.max_rows == 0 ? k.rows : 0;
    Sums grad_k(keys, problem.d, precision, Common::yes), grad_v(keys, problem.dv, precision, Common::no);
    Head work{inputs, precision, k,       v,          largest_norm(k), largest_norm(v),
              grad_k, grad_v,    write_q, write_bias, write_sink,      all ? &captured : nullptr};
    const std::int64_t group = problem.hq / problem.hk;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) work.run(b, h, options);
    write_keys(grad_k, b, kv_head, inputs.sequence(b).first_k, work.sure, write_k);
    write_keys(grad_v, b, kv_head, inputs.sequence(b).first_k, work.sure, write_v);
    if (!work.sure) all_sure = false;
  };
  // Only heads that have something to compute are sampled.
  const auto counts = options.max_heads == 0 ? +[](const Sequence& s) { return s.sq > 0 || s.sk > 0; }
                                             : +[](const Sequence& s) { return s.sq > 0 && s.sk > 0; };
  for_each_head(inputs, problem.hk, options.max_heads, options.threads, counts, head);
  const std::int64_t batches = has_batches(problem.bias) ? 1 : problem.b,
                     heads = has_heads(problem.bias) ? 1 : problem.hq;
  write_bias.finish(batches * heads, precision, all_sure);
  write_sink.finish(problem.b * problem.sq, precision, all_sure);
  if (all) captured.write(outputs, precision, all_sure);
  return outputs;
}

}  // namespace regard::oracle
