/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_STRING_H
#define TESTS_LINUX_STRING_H

#include <string.h>

#endif /* TESTS_LINUX_STRING_H */
