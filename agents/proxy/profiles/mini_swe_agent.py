"""mini-swe-agent (seen on 2.4.6): one conversation with one tool, and nothing else."""

from agents.proxy.profiles.base import MAIN, Mark, Profile, When

PROFILE = Profile(
    name="mini-swe-agent",
    otherwise=MAIN,
    is_single=True,
    marks=(
        Mark(0.6, When(fact_says=(("x-stainless-lang", "python"),), tools_all=("bash",), first_user_says=("issue",))),
        Mark(0.8, When(first_user_says=("complete_task_and_submit_final_output", "mswea"))),
        Mark(0.6, When(system_starts=("You are a helpful assistant",), first_user_says=("please solve this issue",))),
        Mark(0.3, When(fact=("x-stainless-raw-response",), fact_says=(("user-agent", "openai/python"),))),
    ),
)
