/* agent.prompt and agent.wait: the two methods that follow an agent over time. */
#ifndef HERDR_SIM_PROMPTING_H
#define HERDR_SIM_PROMPTING_H

#include "conn.h"

void agent_prompt_method(struct sim *sim, struct conn *c, const cJSON *params);
void agent_wait_method(struct sim *sim, struct conn *c, const cJSON *params);

#endif
