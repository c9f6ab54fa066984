/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a table test says: CHECK and CHECK_EQ count what fails and go on; ROW names the row of the
 * table that the checks after it belong to. main() runs its cases with RUN and returns
 * check_finish(), which is 0 only if checks were made and none failed.
 */
#ifndef TESTS_CHECK_H
#define TESTS_CHECK_H

#include <stdarg.h>
#include <stdio.h>

static const char *check_case = "";
static char check_row[160];
static unsigned long check_made, check_failed;

#define RUN(function)					\
	do {						\
		check_case = #function;			\
		check_row[0] = '\0';			\
		function();				\
	} while (0)

#define ROW(...) ((void)snprintf(check_row, sizeof(check_row), __VA_ARGS__))

#define CHECK(condition) check_that(!!(condition), __FILE__, __LINE__, #condition)

#define CHECK_EQ(actual, expected)					\
	check_equal((long long)(actual), (long long)(expected), __FILE__, __LINE__, #actual)

static inline void check_complain(const char *file, int line)
{
	check_failed++;
	fprintf(stderr, "%s:%d: %s%s%s: ", file, line, check_case, check_row[0] ? ", " : "",
		check_row);
}

static inline void check_that(int holds, const char *file, int line, const char *text)
{
	check_made++;
	if (holds)
		return;
	check_complain(file, line);
	fprintf(stderr, "%s does not hold\n", text);
}

static inline void check_equal(long long actual, long long expected, const char *file, int line,
			       const char *text)
{
	check_made++;
	if (actual == expected)
		return;
	check_complain(file, line);
	fprintf(stderr, "%s is %lld, expected %lld\n", text, actual, expected);
}

static inline int check_finish(void)
{
	fprintf(check_failed ? stderr : stdout, "%lu checks, %lu failed\n", check_made,
		check_failed);
	return check_failed || !check_made;
}

#endif /* TESTS_CHECK_H */
