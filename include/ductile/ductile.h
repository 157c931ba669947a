// SPDX-License-Identifier: Apache-2.0
// Ductile: compiles tensor programs when they are called, for sizes that change from call to call.
// Includes the whole stable API; README.md has a complete example.
#ifndef DUCTILE_DUCTILE_H
#define DUCTILE_DUCTILE_H

#include "ductile/base.h"
#include "ductile/device.h"
#include "ductile/dlpack.h"
#include "ductile/explain.h"
#include "ductile/function.h"
#include "ductile/graphs.h"
#include "ductile/ir.h"
#include "ductile/profile.h"
#include "ductile/runtime.h"
#include "ductile/session.h"
#include "ductile/tensor.h"
#include "ductile/trace.h"
#include "ductile/tune.h"

#endif // DUCTILE_DUCTILE_H
