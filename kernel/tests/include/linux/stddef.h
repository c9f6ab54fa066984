/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_STDDEF_H
#define TESTS_LINUX_STDDEF_H

#include_next <linux/stddef.h>
#include <stdbool.h>
#include <stddef.h>

#define sizeof_field(type, member) sizeof(((type *)0)->member)

#endif /* TESTS_LINUX_STDDEF_H */
