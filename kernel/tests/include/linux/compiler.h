/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_COMPILER_H
#define TESTS_LINUX_COMPILER_H

#define likely(condition) __builtin_expect(!!(condition), 1)
#define unlikely(condition) __builtin_expect(!!(condition), 0)
#define fallthrough __attribute__((__fallthrough__))
#define noinline __attribute__((__noinline__))
/* libc's <sys/cdefs.h> has one that wants another "inline" after it. */
#undef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#define __maybe_unused __attribute__((__unused__))
#define __packed __attribute__((__packed__))
#define READ_ONCE(variable) (*(const volatile __typeof__(variable) *)&(variable))
#define WRITE_ONCE(variable, value) (*(volatile __typeof__(variable) *)&(variable) = (value))

#endif /* TESTS_LINUX_COMPILER_H */
