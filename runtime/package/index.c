// SPDX-License-Identifier: Apache-2.0
// The index of a package: one description that writes and reads it (format.h).
#include "runtime/package/format.h"

#include "lower/graph/graph.h"

static void store_dim(dt_stream_t *s, dt_dim_decl_t *dim) {
  uint32_t mark = (uint32_t)dim->mark;
  dt__stream_name(s, &dim->name);
  dt__stream_signed(s, &dim->min);
  dt__stream_signed(s, &dim->max);
  dt__stream_signed(s, &dim->value);
  dt__stream_flag(s, &dim->is_static);
  dim->mark = (dt_mark_t)dt__stream_below(s, mark, DT_MARK_UNBACKED + 1);
  dt__stream_signed(s, &dim->multiple_of);
  dt__stream_name(s, &dim->of);
  dt__stream_signed(s, &dim->scale);
  dt__stream_signed(s, &dim->offset);
}

static void store_input(dt_stream_t *s, dt_input_decl_t *input) {
  dt__stream_name(s, &input->name);
  dt__dtype_store(s, &input->dtype);
  input->rank = dt__stream_below(s, input->rank, DT_MAX_RANK + 1);
  input->kind = (dt_input_kind_t)dt__stream_below(s, (uint32_t)input->kind, DT_INPUT_DONATED + 1);
  dt__stream_number(s, &input->alignment);
  uint32_t n = input->dims ? input->rank : 0;
  dt_dim_decl_t *dims = dt__stream_list(s, &n, input->dims, sizeof(*dims));
  s->failed = s->failed || (n && n != input->rank);
  for (uint32_t k = 0; k < n && !s->failed; k++)
    store_dim(s, &dims[k]);
  input->dims = n ? dims : NULL;
}

static void store_output(dt_stream_t *s, dt_output_decl_t *output) {
  dt__stream_name(s, &output->name);
  output->rank = dt__stream_below(s, output->rank, DT_MAX_RANK + 1);
  dt__stream_number(s, &output->like_input);
  dt__stream_flag(s, &output->may_alias_input);
  uint32_t n = output->order ? output->rank : 0;
  uint32_t *order = dt__stream_list(s, &n, output->order, sizeof(*order));
  s->failed = s->failed || (n && n != output->rank);
  for (uint32_t k = 0; k < n && !s->failed; k++)
    order[k] = dt__stream_below(s, order[k], output->rank);
  output->order = n ? order : NULL;
}

static void store_numbers(dt_stream_t *s, uint32_t *n, uint32_t **numbers) {
  *numbers = dt__stream_list(s, n, *numbers, sizeof(**numbers));
  for (uint32_t k = 0; k < *n && !s->failed; k++)
    dt__stream_number(s, &(*numbers)[k]);
}

static void store_variant(dt_stream_t *s, dt_pack_variant_t *variant) {
  dt__stream_flag(s, &variant->generic);
  dt__stream_flag(s, &variant->strict_fp);
  dt__stream_number(s, &variant->traced);
  store_numbers(s, &variant->n_constants, &variant->constants);
  variant->codes = dt__stream_list(s, &variant->n_codes, variant->codes, sizeof(*variant->codes));
  for (uint32_t k = 0; k < variant->n_codes && !s->failed; k++) {
    dt_pack_code_t *own = &variant->codes[k];
    dt__stream_number(s, &own->entry);
    dt__stream_number(s, &own->code);
    store_numbers(s, &own->n_forms, &own->forms);
  }
}

static void store_function(dt_stream_t *s, dt_pack_function_t *function) {
  dt__stream_text(s, &function->name);
  dt__stream_flag(s, &function->strict_fp);
  function->dynamic =
      (dt_dynamic_t)dt__stream_below(s, (uint32_t)function->dynamic, DT_DYNAMIC_STATIC + 1);
  function->inputs =
      dt__stream_list(s, &function->n_inputs, function->inputs, sizeof(*function->inputs));
  for (uint32_t k = 0; k < function->n_inputs && !s->failed; k++)
    store_input(s, &function->inputs[k]);
  function->outputs =
      dt__stream_list(s, &function->n_outputs, function->outputs, sizeof(*function->outputs));
  for (uint32_t k = 0; k < function->n_outputs && !s->failed; k++)
    store_output(s, &function->outputs[k]);
  function->variants =
      dt__stream_list(s, &function->n_variants, function->variants, sizeof(*function->variants));
  for (uint32_t k = 0; k < function->n_variants && !s->failed; k++)
    store_variant(s, &function->variants[k]);
  function->deciders =
      dt__stream_list(s, &function->n_deciders, function->deciders, sizeof(*function->deciders));
  for (uint32_t k = 0; k < function->n_deciders && !s->failed; k++) {
    dt__stream_number(s, &function->deciders[k].entry);
    if (function->deciders[k].entry)
      dt__stream_number(s, &function->deciders[k].code);
  }
}

static void store_constant(dt_stream_t *s, dt_pack_constant_t *constant) {
  dt__stream_text(s, &constant->name);
  dt__dtype_store(s, &constant->dtype);
  constant->rank = dt__stream_below(s, constant->rank, DT_MAX_RANK + 1);
  for (uint32_t d = 0; d < constant->rank; d++)
    dt__stream_signed(s, &constant->sizes[d]);
  dt__stream_number(s, &constant->part);
  if (constant->part)
    return;
  dt__stream_number(s, &constant->file);
  dt__stream_word(s, &constant->offset);
  dt__stream_word(s, &constant->sum);
}

static void store_form(dt_stream_t *s, dt_pack_form_t *form) {
  dt__stream_raw(s, form->digest, sizeof(form->digest));
  dt__stream_number(s, &form->part);
  store_numbers(s, &form->n_constants, &form->constants);
}

void dt__pack_index(dt_stream_t *s, dt_pack_index_t *index) {
  dt__stream_text(s, &index->producer);
  index->levels = dt__stream_list(s, &index->n_levels, index->levels, sizeof(*index->levels));
  for (uint32_t k = 0; k < index->n_levels && !s->failed; k++)
    dt__stream_text(s, &index->levels[k].name);
  index->files = dt__stream_list(s, &index->n_files, index->files, sizeof(*index->files));
  for (uint32_t k = 0; k < index->n_files && !s->failed; k++) {
    dt__stream_text(s, &index->files[k].path);
    dt__stream_word(s, &index->files[k].bytes);
  }
  index->constants =
      dt__stream_list(s, &index->n_constants, index->constants, sizeof(*index->constants));
  for (uint32_t k = 0; k < index->n_constants && !s->failed; k++)
    store_constant(s, &index->constants[k]);
  index->forms = dt__stream_list(s, &index->n_forms, index->forms, sizeof(*index->forms));
  for (uint32_t k = 0; k < index->n_forms && !s->failed; k++)
    store_form(s, &index->forms[k]);
  index->functions =
      dt__stream_list(s, &index->n_functions, index->functions, sizeof(*index->functions));
  for (uint32_t k = 0; k < index->n_functions && !s->failed; k++)
    store_function(s, &index->functions[k]);
}
