/* SPDX-License-Identifier: GPL-2.0 */
/* The qdisc `rio`: RED with IN and OUT packets, see net/rio.h. */
#ifndef UAPI_RIO_H
#define UAPI_RIO_H

#include <linux/types.h>

#include "precedence.h"

enum {
	TCA_RIO_UNIFORMIZE = __TCA_PRECEDENCE_OWN,	/* u8, enum tc_rio_uniformize */
	__TCA_RIO_MAX
};

#define TCA_RIO_MAX	(__TCA_RIO_MAX - 1)

enum tc_rio_uniformize {
	TC_RIO_UNIFORMIZE_NONE,
	TC_RIO_UNIFORMIZE_RED,
};

struct tc_rio_class_xstats {
	struct tc_precedence_count enqueued;
	struct tc_precedence_count early;	/* dropped at random between min and max */
	struct tc_precedence_count forced;	/* dropped at or above max */
	struct tc_precedence_count pdrop;	/* dropped for the limit */
	__u32 backlog;				/* bytes */
	__u32 average;				/* bytes */
};

struct tc_rio_xstats {
	struct tc_rio_class_xstats in;
	struct tc_rio_class_xstats out;
	__u32 average;				/* bytes, of both classes together */
	__u32 unused;
};

#endif /* UAPI_RIO_H */
