// SPDX-License-Identifier: GPL-2.0
/* include/net/rio.h step by step, for a model beside it: a FIFO and what the algorithm said. */
#include <stdlib.h>

#include <net/rio.h>

enum { STEP_ARRIVAL, STEP_DEPARTURE };

struct step {
	u64 now;
	u32 len;
	u32 rnd;
	u32 class;
	u32 kind;		/* a departure takes the oldest packet, if there is one */
};

struct outcome {
	u64 scaled[RIO_CLASSES + 1];	/* averages: IN, OUT, both */
	u32 backlog[RIO_CLASSES];
	s32 count[RIO_CLASSES];
	u32 verdict;		/* of an arrival */
	u32 unused;
};

static u32 arrive(const struct rio_params *p, struct rio_vars *v, const struct step *step)
{
	u64 average = rio_arrival(p, v, step->class, step->now);
	u32 rnd = rio_draws(p, v, step->class, average) ? step->rnd : 0;

	return rio_decide(p, v, step->class, average, step->len, rnd);
}

static void leave(struct rio_vars *v, const struct step *packet, u64 now)
{
	if (rio_departure(v, packet->class, packet->len))
		rio_empty(v, packet->class, now);
}

static void tell(struct outcome *outcome, const struct rio_vars *v)
{
	outcome->scaled[RIO_CLASSES] = v->total.scaled;
	for (int i = 0; i < RIO_CLASSES; i++) {
		outcome->scaled[i] = v->class[i].average.scaled;
		outcome->backlog[i] = v->class[i].backlog;
		outcome->count[i] = v->class[i].drop.count;
	}
}

/* Returns 0, or -1 if there is no memory. */
int drive_rio(const struct rio_config *config, size_t steps, const struct step *step,
	      struct outcome *outcome)
{
	const struct step **fifo = malloc(steps * sizeof(*fifo));
	size_t first = 0, last = 0;
	struct rio_params p;
	struct rio_vars v;

	if (!fifo)
		return -1;
	rio_set_params(&p, config);
	rio_init(&v, 0);
	for (size_t i = 0; i < steps; i++) {
		outcome[i].verdict = RIO_VERDICTS;
		if (step[i].kind == STEP_ARRIVAL) {
			outcome[i].verdict = arrive(&p, &v, &step[i]);
			if (outcome[i].verdict == RIO_ENQUEUE)
				fifo[last++] = &step[i];
		} else if (first < last) {
			leave(&v, fifo[first++], step[i].now);
		}
		tell(&outcome[i], &v);
	}
	free(fifo);
	return 0;
}

/* -log2 of what is left after idle ns, times 2^58 and rounded down; U64_MAX: nothing. */
u64 drive_idle(u8 ewma, u32 avpkt, u64 bandwidth, u64 idle)
{
	struct queue_average_params p;

	queue_average_set_params(&p, ewma, avpkt, bandwidth);
	idle >>= p.idle_shift;
	return idle < p.idle_limit ? idle * p.idle_rate : U64_MAX;
}

u32 drive_exp2(u32 x)
{
	return queue_average_exp2(x);
}
