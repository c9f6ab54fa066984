/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_LIMITS_H
#define TESTS_LINUX_LIMITS_H

#include_next <linux/limits.h>
#include <limits.h>
#include <linux/types.h>

#define U8_MAX ((u8)~0U)
#define U16_MAX ((u16)~0U)
#define U32_MAX ((u32)~0U)
#define U64_MAX ((u64)~0ULL)
#define S8_MAX ((s8)(U8_MAX >> 1))
#define S16_MAX ((s16)(U16_MAX >> 1))
#define S32_MAX ((s32)(U32_MAX >> 1))
#define S32_MIN ((s32)(-S32_MAX - 1))
#define S64_MAX ((s64)(U64_MAX >> 1))
#define S64_MIN ((s64)(-S64_MAX - 1))

#endif /* TESTS_LINUX_LIMITS_H */
