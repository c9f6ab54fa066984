/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_OVERFLOW_H
#define TESTS_LINUX_OVERFLOW_H

#include <linux/limits.h>

#define check_add_overflow(a, b, sum) __builtin_add_overflow(a, b, sum)
#define check_sub_overflow(a, b, difference) __builtin_sub_overflow(a, b, difference)
#define check_mul_overflow(a, b, product) __builtin_mul_overflow(a, b, product)

#endif /* TESTS_LINUX_OVERFLOW_H */
