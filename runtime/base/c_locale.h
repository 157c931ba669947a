// SPDX-License-Identifier: Apache-2.0
// The C locale, for numbers in texts that are read back: a process whose locale has a decimal comma
// must print and read the same texts.
#ifndef DT_RUNTIME_BASE_C_LOCALE_H
#define DT_RUNTIME_BASE_C_LOCALE_H

#include <locale.h>

// (locale_t)0 where the C library has no memory for it. Never freed.
locale_t dt__c_locale(void);

#endif // DT_RUNTIME_BASE_C_LOCALE_H
