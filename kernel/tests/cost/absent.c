// SPDX-License-Identifier: GPL-2.0
/*
 * What the modules call of the kernel, but not on the way that is measured: ending the program is
 * better than a figure that is wrong. Without the kernel's headers, which say otherwise what these
 * functions take.
 */
#include <stdio.h>

#include "cost.h"

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
