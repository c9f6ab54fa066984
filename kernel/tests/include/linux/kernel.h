/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_KERNEL_H
#define TESTS_LINUX_KERNEL_H

#include <linux/bitops.h>
#include <linux/limits.h>
#include <linux/log2.h>
#include <linux/math.h>
#include <linux/minmax.h>
#include <linux/stddef.h>

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define container_of(pointer, type, member) \
	((type *)((char *)(pointer) - offsetof(type, member)))

#endif /* TESTS_LINUX_KERNEL_H */
