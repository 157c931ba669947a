// SPDX-License-Identifier: Apache-2.0
// What is written into the text (early.c) and looked for in it (early_text.c).
#ifndef DT_BACKEND_CUDA_EMIT_EARLY_TEXT_H
#define DT_BACKEND_CUDA_EMIT_EARLY_TEXT_H

#define DT_EARLY_WAIT "griddepcontrol.wait;"
// Stands in the line before a copy. Nothing but dt__cuda_copy_early writes it: names do not get
// into comments.
#define DT_EARLY_MARK "// early: settled"

#endif // DT_BACKEND_CUDA_EMIT_EARLY_TEXT_H
