// SPDX-License-Identifier: GPL-2.0
/*
 * cost KIND FLOWS WARM PACKETS: send packets of FLOWS flows through KIND, first WARM that do not
 * count. Prints one line of JSON; the instructions are counted by callgrind.
 */
#include <stdio.h>
#include <stdlib.h>

#include "cost.h"

void *cost_allocate(unsigned long bytes)
{
	void *memory = aligned_alloc(64, (bytes + 63) & ~63UL);

	if (!memory)
		cost_fail("no memory");
	for (unsigned long i = 0; i < bytes; i++)
		((char *)memory)[i] = 0;
	return memory;
}

void cost_fail(const char *what)
{
	fprintf(stderr, "cost: %s\n", what);
	exit(1);
}

int main(int argc, char **argv)
{
	struct cost_order order;
	struct cost_result result = { 0 };

	if (argc != 5)
		cost_fail("usage: cost KIND FLOWS WARM PACKETS");
	order.kind = argv[1];
	order.flows = strtoul(argv[2], NULL, 10);
	order.warm = strtoul(argv[3], NULL, 10);
	order.packets = strtoul(argv[4], NULL, 10);
	if (!order.flows || !order.packets)
		cost_fail("FLOWS and PACKETS are numbers above 0");
	cost_run(&order, &result);
	printf("{\"dropped\": %llu, \"in\": %llu, \"backlog\": %.1f}\n", result.dropped, result.in,
	       (double)result.backlog / order.packets);
	return 0;
}

/*
 * What the modules call of the kernel, but not on the way that is measured: ending the program is
 * better than a figure that is wrong. Without the kernel's headers, which say otherwise what these
 * functions take.
 */
static void absent(const char *function)
{
	fprintf(stderr, "%s() was called, which has no stand-in\n", function);
	cost_fail("the load leaves the way that is measured");
}

#define ABSENT(function)			\
	void function(void);			\
	void function(void) { absent(#function); }

ABSENT(do_trace_netlink_extack)
ABSENT(gnet_stats_copy_app)
ABSENT(jiffies_to_clock_t)
ABSENT(mod_timer)
ABSENT(nla_put)
ABSENT(nla_put_64bit)
ABSENT(nla_reserve_64bit)
ABSENT(nla_strscpy)
ABSENT(qdisc_offload_dump_helper)
ABSENT(qdisc_offload_graft_helper)
ABSENT(rtnl_kfree_skbs)
ABSENT(rtnl_lock)
ABSENT(rtnl_unlock)
ABSENT(skb_trim)
ABSENT(tcf_chain_put_by_act)
ABSENT(tcf_idr_cleanup)
ABSENT(tcf_idr_release)
ABSENT(tcf_idrinfo_destroy)
ABSENT(tcf_qevent_destroy)
ABSENT(tcf_qevent_dump)
ABSENT(tcf_unregister_action)
ABSENT(timer_delete_sync)
ABSENT(unblock_pending_signals)
ABSENT(unregister_qdisc)
ABSENT(warn_slowpath_fmt)
