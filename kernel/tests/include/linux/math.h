/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_MATH_H
#define TESTS_LINUX_MATH_H

#include <linux/types.h>

#define DIV_ROUND_UP(dividend, divisor) (((dividend) + (divisor) - 1) / (divisor))
#define round_up(value, power_of_two) ((((value) - 1) | ((power_of_two) - 1)) + 1)
#define round_down(value, power_of_two) ((value) & ~((power_of_two) - 1))
#define abs_diff(a, b) ((a) > (b) ? (a) - (b) : (b) - (a))

#endif /* TESTS_LINUX_MATH_H */
