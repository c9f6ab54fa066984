// SPDX-License-Identifier: GPL-2.0
/* A module with the fault that FAULT names: what the kasan variant must report. */
#include <linux/delay.h>
#include <linux/list.h>
#include <linux/module.h>
#include <linux/rcupdate.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/vmalloc.h>

static DEFINE_SPINLOCK(first);
static DEFINE_SPINLOCK(second);
static int __rcu *protected;
static volatile int beyond = 64;

static inline void use_after_free(void)
{
	volatile char *memory = kmalloc(64, GFP_KERNEL);

	kfree((void *)memory);
	memory[3] = 1;
}

static inline void out_of_bounds(void)
{
	volatile char *memory = kmalloc(64, GFP_KERNEL);

	memory[beyond] = 1;
	kfree((void *)memory);
}

static inline void vmalloc_out_of_bounds(void)
{
	volatile char *memory = vmalloc(PAGE_SIZE);

	memory[PAGE_SIZE + beyond] = 1;
	vfree((void *)memory);
}

static inline void shift(void)
{
	pr_info("%d\n", 1 << beyond);
}

static inline void sleeps_under_lock(void)
{
	spin_lock(&first);
	msleep(1);
	spin_unlock(&first);
}

static inline void lock_order(void)
{
	spin_lock(&first);
	spin_lock(&second);
	spin_unlock(&second);
	spin_unlock(&first);
	spin_lock(&second);
	spin_lock(&first);
	spin_unlock(&first);
	spin_unlock(&second);
}

static inline void rcu_unprotected(void)
{
	pr_info("%px\n", rcu_dereference(protected));
}

static inline void list_corruption(void)
{
	struct list_head head, entry, other;

	INIT_LIST_HEAD(&head);
	list_add(&entry, &head);
	head.next = &other;
	list_del(&entry);
}

static inline void leak(void)
{
	if (!kmalloc(100, GFP_KERNEL))
		pr_info("no memory to lose\n");
}

static int __init faulty_init(void)
{
	FAULT();
	return 0;
}

static void __exit faulty_exit(void)
{
}

module_init(faulty_init);
module_exit(faulty_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("a fault");
