/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* The qdisc `delivery`: a link whose rate changes at given instants, see net/delivery.h. */
#ifndef UAPI_DELIVERY_H
#define UAPI_DELIVERY_H

#include <linux/types.h>

enum {
	TCA_DELIVERY_UNSPEC,
	TCA_DELIVERY_BURST,		/* u32, bytes: of a link with rates */
	TCA_DELIVERY_RATES,		/* struct tc_delivery_rate, one to TC_DELIVERY_RATES_MAX */
	TCA_DELIVERY_TRACE,		/* u8, opportunities of each millisecond; only set */
	TCA_DELIVERY_APPEND,		/* the same behind the trace that there is; only set */
	TCA_DELIVERY_EPOCH,		/* s64, ns of CLOCK_REALTIME */
	TCA_DELIVERY_LENGTH,		/* u32, ms of the trace; only shown, as is the next */
	TCA_DELIVERY_OPPORTUNITIES,	/* u64, of the trace */
	TCA_DELIVERY_PAD,
	__TCA_DELIVERY_MAX
};

#define TCA_DELIVERY_MAX	(__TCA_DELIVERY_MAX - 1)

#define TC_DELIVERY_RATES_MAX	100
#define TC_DELIVERY_LENGTH_MAX	10000000	/* ms */

struct tc_delivery_rate {
	__s64 at;	/* ns after the epoch, upwards */
	__u64 rate;	/* bytes/s; 0: an outage */
};

#endif /* UAPI_DELIVERY_H */
