#include <atomic>
#include <cmath>

#include "oracle/passes.h"
#include "oracle/row.h"
#include "oracle/sums.h"
#include "oracle/tolerance.h"
#include "oracle/writer.h"

namespace regard::oracle {
namespace {

/// Heads that share a broadcast bias gradient or a sink run at the same time.
void add(double& sum, double term) {
  std::atomic_ref<double>(sum).fetch_add(term);
}

/// One query head of one sequence. The derivation, with w = keep / keep probability:
///   O = (P w) V                  dV = (P w)^T dO
///   dP = w (dO V^T)              D = rowsum(P dP) = rowsum(dO O)
///   dS = P (dP - D)              the bias gets dS; the sink's logit, which has no value, gets -P_sink D
///   dX = dS (1 - tanh^2)         through the soft cap
///   dQ = scale dX K              dK = scale dX^T Q
struct Head {
  const Inputs& inputs;
  const Precision precision;
  const Matrix &k, &v;
  double largest_k, largest_v;
  Sums &grad_k, &grad_v;
  const Writer &write_q, &write_bias, &write_sink;

  void run(std::int64_t b, std::int64_t h, const Options& options);
};

void Head::run(std::int64_t b, std::int64_t h, const Options& options) {
  const Problem& problem = inputs.problem();
  const Sequence& sequence = inputs.sequence(b);
  const Matrix q = inputs.matrix(REGARD_Q, b, h), grad_o = inputs.matrix(REGARD_GRAD_O, b, h);
  const double scale = scale_of(problem);
  const double unit_out = format(static_cast<regard_dtype>(problem.out)).unit();
  const std::int64_t terms = std::max(sequence.sk, sequence.sq * (problem.hq / problem.hk));
  Row row;
  Sums o(1, problem.dv, precision.lost), grad_q(1, problem.d, precision.lost), mean_k(1, problem.d, 0);

  for (const std::int64_t i : spread(sequence.sq, options.max_rows)) {
    const double* d_o = grad_o.row(i);
    compute_row(inputs, b, h, i, q.row(i), k, largest_k, row);
    const double relative = precision.row(row.largest_logit, row.logit_per_lost, row.lse, terms);

    o.clear();
    for (std::int64_t j = 0; j < sequence.sk; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double weight = row.weight[at], keep = row.keep[at];
      if (weight * keep == 0) continue;
      const double error = precision.rounded(weight, row.log_weight[at], relative, row.largest_weight);
      o.add(0, keep * weight, keep * error, v.row(j));
      grad_v.add(j, keep * weight, keep * error, d_o);
    }

    // D comes from the O that forward stored, so it inherits the rounding of O.
    const double delta = dot(d_o, o.value.row(0), problem.dv);
    const double fp32_error = 2 * precision.step * norm(d_o, problem.dv) * largest_v;
    double delta_variance = fp32_error * fp32_error;
    for (std::int64_t c = 0; c < problem.dv; ++c) {
      const double error = o.error(0, c) + (unit_out + relative) * std::fabs(o.value.row(0)[c]);
      delta_variance += d_o[c] * d_o[c] * error * error;
    }
    const double delta_error = std::sqrt(delta_variance);

    grad_q.clear();
    mean_k.clear();
    for (std::int64_t j = 0; j < sequence.sk; ++j) {
      const auto at = static_cast<std::size_t>(j);
      const double weight = row.weight[at];
      if (weight == 0) continue;
      const double d_p = row.keep[at] * dot(d_o, v.row(j), problem.dv);
      const double d_s = weight * (d_p - delta);
      const double d_s_error =
          precision.weight(weight, row.log_weight[at], relative) * std::fabs(d_p - delta) +
          weight * (delta_error + row.keep[at] * fp32_error);
      if (write_bias) {
        add(write_bias.value(b, h, i, j), d_s);
        add(write_bias.error(b, h, i, j), d_s_error * d_s_error);
      }
      const double d_x = scale * d_s * row.slope[at];
      const double slope_error = precision.slope(row.slope[at], row.largest_logit, problem.softcap);
      const double d_x_error =
          (precision.product + slope_error) * std::fabs(d_x) + std::fabs(scale) * d_s_error;
      grad_q.add(0, d_x, d_x_error, k.row(j));
      grad_k.add(j, d_x, d_x_error, q.row(i));
      mean_k.add(0, weight * row.slope[at], 0, k.row(j));
    }
    for (std::int64_t c = 0; c < problem.d; ++c) {
      // D is the same for the whole row, so its error does not average out over the keys.
      const double common = std::fabs(scale) * delta_error * std::fabs(mean_k.value.row(0)[c]);
      const double value = grad_q.value.row(0)[c];
      write_q.set(b, h, sequence.first_q + i, c, value,
                  grad_q.error(0, c) + common + relative * std::fabs(value));
    }
    if (write_sink) {
      const double error =
          row.sink_weight * delta_error + precision.weight(row.sink_weight, 0, relative) * std::fabs(delta);
      add(write_sink.value(0, h, 0, 0), -row.sink_weight * delta);
      add(write_sink.error(0, h, 0, 0), error * error);
    }
  }
}

void write_keys(const Sums& sums, std::int64_t b, std::int64_t head, std::int64_t first,
                const Writer& writer) {
  for (std::int64_t j = 0; j < sums.value.rows; ++j)
    for (std::int64_t c = 0; c < sums.value.columns; ++c)
      writer.set(b, head, first + j, c, sums.value.row(j)[c], sums.error(j, c));
}

/// Sums over heads were collected as squares.
void take_roots(Outputs& outputs, regard_role role) {
  if (const auto found = outputs.find(role); found != outputs.end())
    for (double& error : found->second.error) error = std::sqrt(error);
}

}  // namespace

Outputs backward(const Inputs& inputs, const Options& options) {
  const Problem& problem = inputs.problem();
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

  const auto head = [&](std::int64_t b, std::int64_t kv_head) {
    const Matrix k = inputs.matrix(REGARD_K, b, kv_head), v = inputs.matrix(REGARD_V, b, kv_head);
    const Precision precision(problem);
    Sums grad_k(k.rows, problem.d, precision.lost), grad_v(v.rows, problem.dv, precision.lost);
    Head work{inputs, precision, k,       v,          largest_norm(k), largest_norm(v),
              grad_k, grad_v,    write_q, write_bias, write_sink};
    const std::int64_t group = problem.hq / problem.hk;
    for (std::int64_t h = kv_head * group; h < (kv_head + 1) * group; ++h) work.run(b, h, options);
    write_keys(grad_k, b, kv_head, inputs.sequence(b).first_k, write_k);
    write_keys(grad_v, b, kv_head, inputs.sequence(b).first_k, write_v);
  };
  for_each_head(inputs, problem.hk, options.max_heads, options.threads, head);
  take_roots(outputs, REGARD_GRAD_BIAS);
  take_roots(outputs, REGARD_GRAD_SINK);
  return outputs;
}

}  // namespace regard::oracle
