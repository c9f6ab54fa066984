/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Included before all else in a module, takes the locks out of its dumps: queue and marker are then
 * read while another processor writes to them. Nothing crashes of that, so only a detector of data
 * races finds it; if it does not, it proves nothing of the modules as they are.
 */
#ifndef SMP_UNLOCKED_H
#define SMP_UNLOCKED_H

/* What takes locks inline comes first and keeps them. */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/string.h>
#include <net/act_api.h>
#include <net/pkt_cls.h>
#include <net/pkt_sched.h>

/* In a function called xyz_dump or xyz_dump_stats, nothing. */
#define UNLESS_DUMP(operation)			\
	do {					\
		if (!strstr(__func__, "dump"))	\
			operation;		\
	} while (0)

#define spin_lock_bh(lock)	UNLESS_DUMP((spin_lock_bh)(lock))
#define spin_unlock_bh(lock)	UNLESS_DUMP((spin_unlock_bh)(lock))
#define sch_tree_lock(sch)	UNLESS_DUMP((sch_tree_lock)(sch))
#define sch_tree_unlock(sch)	UNLESS_DUMP((sch_tree_unlock)(sch))

#endif /* SMP_UNLOCKED_H */
