// SPDX-License-Identifier: GPL-2.0
/*
 * include/net/frio.h with its flows step by step, for a model beside it: a FIFO and what the
 * algorithm said.
 */
#include <stdlib.h>

#include <net/frio_flows.h>

enum { STEP_ARRIVAL, STEP_DEPARTURE, STEP_MODE };

struct step {
	u64 now;
	u32 len;
	u32 rnd;
	u32 class;
	u32 flow;		/* a number */
	u32 kind;		/* a departure takes the oldest packet, if there is one */
	u32 record;		/* of a packet that is queued: filled in here */
};

struct outcome {
	u64 scaled[FRIO_CLASSES];
	u64 overflowed;
	u32 backlog[FRIO_CLASSES];
	u32 flows[FRIO_CLASSES];
	s32 count[FRIO_CLASSES];
	u32 qlen[FRIO_CLASSES];		/* of the step's flow, after it */
	u32 strikes[FRIO_CLASSES];
	u32 records;
	u32 verdict;			/* of an arrival */
};

struct buffer {
	struct frio_params params;
	struct frio_vars vars;
	struct frio_flows flows;
	u32 backlog;
};

static u32 arrive(struct buffer *b, struct step *step)
{
	struct frio_flow *flow;
	struct flow_key key;
	u32 verdict = FRED_PDROP;

	flow_key_none(&key);
	key.version = 4;
	key.ipv4.source = step->flow;
	step->record = frio_flows_get(&b->flows, &key);
	flow = frio_flow(&b->flows, step->record);
	if (frio_fits(&b->params, b->backlog, step->len))
		verdict = frio_arrival(&b->params, &b->vars, flow, step->class, step->now);
	if (verdict == FRED_DRAW)
		verdict = frio_draw(&b->params, &b->vars, step->class, step->rnd);
	if (verdict != FRED_ENQUEUE) {
		frio_flows_release(&b->flows, step->record);
		return verdict;
	}
	frio_enqueue(&b->params, &b->vars, flow, step->class, step->len);
	b->backlog += step->len;
	return verdict;
}

/* Returns its flow, whose record may be free now. */
static const struct frio_flow *leave(struct buffer *b, const struct step *packet, u64 now)
{
	struct frio_flow *flow = frio_flow(&b->flows, packet->record);

	frio_dequeue(&b->params, &b->vars, flow, packet->class, packet->len, now);
	frio_flows_release(&b->flows, packet->record);
	b->backlog -= packet->len;
	return flow;
}

/* flow: the step's, all 0 if it has none. */
static void tell(struct outcome *outcome, const struct buffer *b, const struct frio_flow *flow)
{
	for (int i = 0; i < FRIO_CLASSES; i++) {
		outcome->scaled[i] = b->vars.view[i].average.scaled;
		outcome->backlog[i] = b->vars.view[i].backlog;
		outcome->flows[i] = b->vars.view[i].flows;
		outcome->count[i] = b->vars.view[i].drop.count;
		outcome->qlen[i] = flow->view[i].qlen;
		outcome->strikes[i] = flow->view[i].strikes;
	}
	outcome->overflowed = b->flows.overflowed;
	outcome->records = frio_flows_count(&b->flows);
}

static void drive(struct buffer *b, size_t steps, struct step *step, struct outcome *outcome,
		  struct step **fifo)
{
	size_t first = 0, last = 0;

	for (size_t i = 0; i < steps; i++) {
		static const struct frio_flow none;
		const struct frio_flow *flow = &none;

		outcome[i].verdict = FRED_VERDICTS;
		if (step[i].kind == STEP_ARRIVAL) {
			outcome[i].verdict = arrive(b, &step[i]);
			flow = frio_flow(&b->flows, step[i].record);
			if (outcome[i].verdict == FRED_ENQUEUE)
				fifo[last++] = &step[i];
		} else if (step[i].kind == STEP_MODE) {
			frio_flows_change_mode(&b->flows, &b->params, &b->vars,
					       !b->params.mode, step[i].now);
		} else if (first < last) {
			flow = leave(b, fifo[first++], step[i].now);
		}
		tell(&outcome[i], b, flow);
	}
}

/* Returns 0, or -1 if there is no memory. */
int drive_frio(const struct frio_config *config, u64 seed, size_t steps, struct step *step,
	       struct outcome *outcome)
{
	struct step **fifo = malloc(steps * sizeof(*fifo));
	void *memory = calloc(1, frio_flows_bytes(config->flows));
	struct buffer b;

	if (fifo && memory) {
		frio_set_params(&b.params, config);
		frio_init(&b.vars, 0);
		frio_flows_init(&b.flows, memory, config->flows, seed);
		b.backlog = 0;
		drive(&b, steps, step, outcome, fifo);
	}
	free(fifo);
	free(memory);
	return fifo && memory ? 0 : -1;
}
