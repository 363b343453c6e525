"""What-if: a run simulated under other settings, from its own recorded durations and, if wanted, from where it stands.

`question` says what is asked, `reading` gathers what the answer rests on, `points` simulates it in a process of its
own (`child`), `work` keeps lease, progress and results, `answer` says in words what came out.
"""
