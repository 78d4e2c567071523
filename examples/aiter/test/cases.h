// The cases that the tests run.
#pragma once

#include "setup.h"

namespace test {

const Case window{"window, sink tokens, bias, soft cap, sinks, dropout, GQA",
                  2,
                  false,
                  mask_enum::mask_bottom_right,
                  9,
                  2,
                  3,
                  bias_enum::elementwise_bias,
                  false,
                  5,
                  0.2f,
                  true};
const Case grouped{"causal, shared bias, sinks, GQA",
                   2,
                   false,
                   mask_enum::mask_bottom_right,
                   -1,
                   0,
                   0,
                   bias_enum::elementwise_bias,
                   true,
                   0,
                   0,
                   true};
const Case one_key_head{"window from the top left, dropout, MQA",
                        1,
                        false,
                        mask_enum::mask_top_left,
                        9,
                        0,
                        0,
                        bias_enum::no_bias,
                        false,
                        0,
                        0.2f,
                        false};
const Case varlen{"packed, causal, ALiBi of each sequence, GQA",
                  2,
                  true,
                  mask_enum::mask_bottom_right,
                  -1,
                  0,
                  0,
                  bias_enum::alibi,
                  false,
                  0,
                  0,
                  false};
const Case split{"split, causal, sinks",
                 4,
                 true,
                 mask_enum::mask_bottom_right,
                 -1,
                 0,
                 0,
                 bias_enum::no_bias,
                 false,
                 0,
                 0,
                 true};

}  // namespace test
