// SPDX-License-Identifier: Apache-2.0
// Operators that move elements, on values known as numbers.
#include "frontends/onnx/import/known.h"
