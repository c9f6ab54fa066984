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
