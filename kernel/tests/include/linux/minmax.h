/* SPDX-License-Identifier: GPL-2.0 */
#ifndef TESTS_LINUX_MINMAX_H
#define TESTS_LINUX_MINMAX_H

#include <linux/types.h>

/* As in the kernel, min() and max() want both sides of one type; min_t() and max_t() convert. */
#define min(a, b)						\
	({							\
		__typeof__(a) min_a_ = (a);			\
		__typeof__(b) min_b_ = (b);			\
		(void)(&min_a_ == &min_b_);			\
		min_a_ < min_b_ ? min_a_ : min_b_;		\
	})

#define max(a, b)						\
	({							\
		__typeof__(a) max_a_ = (a);			\
		__typeof__(b) max_b_ = (b);			\
		(void)(&max_a_ == &max_b_);			\
		max_a_ > max_b_ ? max_a_ : max_b_;		\
	})

#define min_t(type, a, b)					\
	({							\
		type min_t_a_ = (a);				\
		type min_t_b_ = (b);				\
		min_t_a_ < min_t_b_ ? min_t_a_ : min_t_b_;	\
	})

#define max_t(type, a, b)					\
	({							\
		type max_t_a_ = (a);				\
		type max_t_b_ = (b);				\
		max_t_a_ > max_t_b_ ? max_t_a_ : max_t_b_;	\
	})

#define clamp_t(type, value, low, high) min_t(type, max_t(type, value, low), high)
#define clamp(value, low, high) clamp_t(__typeof__(value), value, low, high)

#define swap(a, b)						\
	do {							\
		__typeof__(a) swap_ = (a);			\
		(a) = (b);					\
		(b) = swap_;					\
	} while (0)

#endif /* TESTS_LINUX_MINMAX_H */
