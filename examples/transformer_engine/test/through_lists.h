// Calls the functions with argument lists, with the values of the structs.
#pragma once

#include "ck_fused_attn/ck_fused_attn.hpp"

void forward_through_lists(const ck_fused_attn::CKAttnFwdArgs& args);
void backward_through_lists(const ck_fused_attn::CkAttnBwdArgs& args);
