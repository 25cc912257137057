"""What each code of a claim says in English: the one place where remarks become sentences.

A text uses the values of its remark and no others. The texts are templates of Jinja. A code among KINDS bars
a claim: there stands what a headline says of it, without numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

_BETTER = "the primary metric got better, p <= {{ '%.2g' % level }}"
_NO_RIVALS = "no rivals were given"

REASONS: Mapping[str, str] = {
    "too_few_clusters": (
        "descriptive only: {{ n | counted('clusters') }}, a test needs {{ needed }} of such sizes"
    ),
    "worse": "the primary metric got worse",
    "equivalent": "p > {{ '%.2g' % level }}; any change is smaller than what matters",
    "not_shown": (
        "p > {{ '%.2g' % level }}; smallest detectable effect"
        " {{ 'unknown' if detectable is none else '%.1f points' % detectable }}"
    ),
    "better": _BETTER,
    "skilled": f"{_BETTER}, and than every player without skill",
    "skilled_beside": f"{_BETTER}, and than the rivals that were brought: {{{{ rivals | join(', ') }}}}",
    "no_trivial_rival": f"{_BETTER}, but the plan names no player without skill to compare with",
    "no_rivals_given": (
        f"{_BETTER}, but {_NO_RIVALS} (--rival NAME=FILE): whether it takes skill is not shown"
    ),
    "rivals_not_beaten": (
        f"{_BETTER}, but the trained policy is not shown to beat {{{{ rivals | with_gaps }}}}"
    ),
    "seeds_not_beaten": (
        f"{_BETTER}, but the trained policy is not shown to beat {{% for each in rivals %}}{{{{ each.name"
        f" }}}}"
        " ({{ each.points | points }} points, beaten by {{ each.beaten }} of {{ runs }})"
        "{{ ', ' if not loop.last else '' }}{% endfor %}"
    ),
    "worse_beside": "got worse: {{ measures | join(', ') }}",
    "draft": "a draft: what was played chooses the checkpoint too",
}

# What bars a claim that any two arms can show.
_OF_ARMS: Mapping[str, str] = {
    "other_suite": (
        "the {{ arm }} arm was played on suite {{ suite[:12] }}, the plan names {{ planned[:12] }}"
    ),
    "arm_not_whole": "{{ arm }} arm: expected {{ expected }}, found {{ found }}",
    "seeds_repeat": (
        "{{ arm }} arm: {{ n }} of {{ of | counted('episodes') }} {{ 'repeats' if n == 1 else 'repeat' }}"
        " the sampling seed of another draw of their item"
    ),
    "other_items": (
        "arms differ: {{ n | counted('items') }} in one of {{ first }} and {{ arm }} only, or in another"
        " cluster there ({{ items | as_code }})"
    ),
    "random_reward_not_played": "the random-reward arm that the plan asks for was not played",
    "random_reward_not_comparable": (
        "the random-reward arm that the plan asks for is not comparable: {{ reasons | say }}"
    ),
    "rival_not_played": "the rival {{ rival }} that the plan names did not play",
    "control_failed": "the control found a difference between base and base: {{ reason | say }}",
    "unreadable": (
        "a file of the evidence is missing, damaged or not what it should be: {{ where }}: expected"
        " {{ expected }}, found {{ found }}"
    ),
}

# What bars a claim of a run of the pipeline.
_OF_A_RUN: Mapping[str, str] = {
    "plan_changed": "the plan of the claim was changed after training",
    "plan_of_other_data": "the plan of the claim is about other data than fingerprint.json",
    "plan_not_asked": "the plan of the claim is not what the settings ask for",
    "other_base": "base.json is about another base than the one that was trained",
    "other_base_measured": "the adapter was trained on another base than the one measured before",
    "other_policy_measured": "the policy measured after is not the one that was trained",
    "other_greedy_before": "another policy played greedily before",
    "other_greedy_after": "another policy played greedily after",
    "other_base_again": "another policy than the base played the base's second time",
    "other_external": "train.json tells of another external training than the settings",
    "other_named_data": "named_data.json is about other training data than the settings name",
    "other_alarms": "health.jsonl does not tell the alarms that train.json sums up",
    "other_records": "contamination.json is about other records than fingerprint.json",
    "log_not_whole": "training_log.csv does not hold every step of the training",
    "chosen_not_validated": "the chosen step was never validated",
    "misgraded": "{{ found }}",
    "leak": "leak: {{ overlap | shared }}",
    "alarm_unanswered": (
        "a red alarm of the training is not acknowledged: {{ alarm | of_rule }} Fix: look at it, then give"
        " a reason under evidence.acknowledged_alarms (rule: {{ alarm.rule }})"
    ),
    "other_opening": (
        "openings.json is about another opening than this claim: policy, records, seed or seeds of the"
        " plan. Fix: ./run dvc repro -f post_eval"
    ),
    "openings_lost": (
        "how often the held-out records were opened is not known: the ledger lacks what this run itself"
        " opened: an older one was put back, or the base's episodes came from DVC's cache. Fix: ./run dvc"
        " repro -sf pre_eval post_eval, then ./run repro"
    ),
    "control_stopped": "the random-reward training ended before its last step: {{ stopped }}",
    "control_of_other_training": (
        "the random-reward arm is not the control of this training: seed, steps or base of control.json are"
        " not those of train.json"
    ),
    "control_of_other_policy": (
        "the random-reward arm is not the control of this training: it was played by another policy than"
        " the one paid at random"
    ),
    "control_of_other_step": (
        "the random-reward arm is not the control of this training: step {{ step }} was played, and not the"
        " last, {{ last }}"
    ),
    "other_rivals": "rivals.json tells of other rivals than the plan of the claim names",
    "rival_of_other_policy": "a rival was played by another policy than the base: {{ file }}",
    "suite_of_other_policy": "another policy played a secondary suite: {{ file }}",
}

# What bars a claim of results that were made elsewhere.
_OF_RESULTS: Mapping[str, str] = {
    "no_score": (
        "{{ n }} of {{ of | counted('results') }} {{ arm }} have no score: {% for each in items %}item"
        " {{ [each.item] | as_code }}{{ ' (%s)' % each.why if each.why else '' }}"
        "{{ ', ' if not loop.last else '' }}{% endfor %}. Fix: run those again; nothing is left out"
    ),
    "inspect_not_whole": (
        "{{ file }}: its status is {{ status }}, so samples are missing. Fix: inspect eval-retry"
    ),
    "items_in_one_arm": (
        "{% for each in arms %}{{ each.n | counted('items') }} only in {{ each.arm }}"
        " ({{ each['items'] | as_code }}){{ '; ' if not loop.last else '' }}{% endfor %}. Fix: run both"
        " on the same"
        " items, and leave out none"
    ),
    "other_questions": (
        "{{ n | counted('items') }} of {{ of }} have another question or target in {{ arm }}"
        " ({{ items | as_code }})"
    ),
    "other_draws": (
        "draws an item: {% for each in arms %}{{ each.arm }} {{ each.fewest }}"
        "{{ ' to %d' % each.most if each.most != each.fewest else '' }}{{ ', ' if not loop.last else ''"
        " }}{% endfor %}. Fix:"
        " --draws {{ fewest }} takes the first {{ fewest }} of each"
    ),
    "other_clusters": ("{{ n | counted('items') }} in another cluster in {{ arm }} ({{ items | as_code }})"),
    "not_as_planned": (
        "{{ what }}: the plan has {{ planned }}, found {{ found }}. Fix: make another plan with assay plan;"
        " what was planned is what is judged"
    ),
}

_OPENINGS: Mapping[str, str] = {
    "tries_before": (
        "{{ n | counted('tries') }} at the held-out records came before{{ ', %d of them by other seeds of"
        " this plan' % of_plan if of_plan else '' }}: this one is number {{ place }}, and pays for it"
        " with its level."
    ),
    "rolled_before": (
        "The same plan had trained seed {{ seed }} before, to {{ n | counted('other policies') }}."
    ),
    "ledger_restored": (
        "The ledger of held-out openings was removed, cut, or replaced by an older copy:"
        " {{ n | counted('policies') }} of it came back from git or this working copy."
    ),
    "ledger_put_back": (
        "Git had put an older ledger of held-out openings in place (a checkout, a stash, another branch):"
        " {{ n | counted('policies') }} that it lacks are known here, and count."
    ),
    "seed_not_planned": "Training seed {{ seed }} is not among the seeds of the plan.",
    "seeds_left_out": (
        "The seeds of the plan are some of those that another plan had shown on these records; left out:"
        " {{ seeds | join(', ') }}."
    ),
    "seed_planned_late": (
        "Training seed {{ seed }} was registered after its policy had seen the held-out records."
    ),
    "openings_not_known": (
        "How often the held-out records were opened is not known: no ledger of it was kept."
    ),
    "ledger_not_whole": (
        "The ledger of held-out openings is not whole: it lacks what this claim's own run noted. An older"
        " one was put back, or it was removed."
    ),
    "opened_for_others": (
        "Held-out records of this claim were opened for {{ here | others }} in this working copy; the"
        " protocol knows base, chosen checkpoint and controls. If one of the others had a part in choosing"
        " this one, p and interval promise too much."
    ),
    "opened_elsewhere": (
        "The held-out records were opened for {{ here | others }} in this working copy; the ledger that"
        " came with the project has {{ elsewhere | others }} of whoever made or shared it."
    ),
}

_NUMBERS: Mapping[str, str] = {
    "descriptive_only": (
        "Descriptive only: {{ n | counted(clusters) }}, where a test needs {{ needed }} of such sizes."
    ),
    "few_clusters": "Only {{ n }} {{ clusters }}: the interval is wide.",
    "detectable_exceeds": (
        "The smallest detectable effect, {{ '%.1f' % detectable }} points, exceeds the smallest that"
        " matters, {{ '%g' % matters }} points."
    ),
    "planned_exceeds": (
        "Before {{ 'it was measured' if elsewhere else 'training' }}, {{ 'no possible gain' if detectable is"
        " none else 'only gains from %.1f points on' % detectable }} would have been found with power"
        " {{ '%g' % power }}; the smallest that matters is {{ '%g' % matters }} points."
    ),
    "margin_bounded": (
        "The margin of {{ '%g' % matters }} points exceeds half of what the base could lose or gain:"
        " {% for each in margins %}a {{ each.change }} of {{ '%.1f' % each.points }} points"
        "{{ ' or ' if not loop.last else '' }}{% endfor %} counts as mattering."
    ),
    "control_not_run": "No A/A control: {{ reason | say }}.",
    "strata_worse": (
        "Got worse within strata, which is exploratory (Holm p <= {{ '%g' % level }}):"
        " {{ strata | join(', ') }}."
    ),
    "worse_within_margin": (
        "{{ measure }} got worse, within its margin of {{ '%g' % margin }}: {{ difference | gap(measure) }}."
    ),
    "guardrails_open": "Guardrails not shown to hold: {{ measures | join(', ') }}.",
    "same_policy": "Both arms are the same policy: the base was chosen, or one was named twice.",
    "random_reward_not_evaluable": "Random-reward arm: NOT EVALUABLE ({{ reasons | say }}).",
    "random_rewards_improved": (
        "Random rewards improved the primary metric too: {{ difference | gap }} points, {{ p | of_p }}. That"
        " part of the gain is no sign of learning the task."
    ),
    "random_rewards_worsened": (
        "Random rewards made the primary metric worse: {{ difference | gap }} points, {{ p | of_p }}. To be"
        " ahead of them takes less than to be ahead of the base."
    ),
    "random_rewards_not_beaten": (
        "The training is not shown to beat one for random rewards: {{ difference | gap }} points,"
        " {{ p | of_p }}."
    ),
    "not_tested": (
        "Not tested: {{ measures | join(', ') }}. The task does not say between what its rewards lie"
        " (reward_range), one of them lies elsewhere, or clusters are too few; without bounds no test holds"
        " its level."
    ),
    "more_tokens": (
        "The trained policy writes {{ '%.1f' % (after / before) }} times as many tokens a completion"
        " ({{ '%.1f' % before }} \u2192 {{ '%.1f' % after }}): what more computation brings is part of the"
        " gain."
    ),
    "form_only": (
        "The gain is one of form: answers that parse bring {{ parsed | gap }} points, right ones"
        " {{ right | gap }}."
    ),
    "sharpening": (
        "{% if greedy is not none %}Base greedy {{ '%.1f' % greedy }} %, base sampled"
        " {{ '%.1f' % sampled }} %: of the gain of {{ '%+.1f' % (trained - sampled) }} points"
        " {{ '%+.1f' % (greedy - sampled) }} are reached by decoding greedily. {% endif %}"
        "{% if difference is not none %}The base decoded greedily is not shown to be worse:"
        " {{ difference | gap }} points. {% endif %}"
        "The gain may be sharpening: less chance, no new skill."
    ),
    "rival_not_used": "The rival {{ rival }} of the plan did not play.",
    "would_bar": "Would bar a claim: {{ found | say }}.",
    "answered_only": (
        "{{ flags | join(', ') }} {{ 'counts' if flags | length == 1 else 'count' }} only those who answer:"
        " {{ before | percent }} % before and {{ after | percent }} % after"
        "{{ ' of the episodes that %s counts' % among if among is not none else '' }}. With no answer as"
        " a wrong one"
        " the change is {{ changes | gaps }} points."
    ),
    "collapsed": (
        "Nearly constant after training and not before: {% for each in answers %}{{ each.name }}"
        " ({{ each.value }}: {{ each.share_before | percent }} to {{ each.share_after | percent }} % of"
        " {{ each.n_after }} answers){{ ', ' if not loop.last else '' }}{% endfor %}."
    ),
    "confidence_empty": (
        "The stated confidence is not shown to tell right verdicts from wrong ones: Brier score"
        " {{ '%.3f' % brier }}, always stating {{ '%.2f' % right }} {{ '%.3f' % constant }}, difference"
        " {{ difference | gap('brier') }}."
    ),
    "items_broken": (
        "{{ n | counted('items') }} that the base got right in every draw {{ 'is' if n == 1 else 'are' }}"
        " right in none after training ({{ fixed }} the other way round)."
    ),
}

_TRAINING: Mapping[str, str] = {
    "untrained": "Validation chose step 0: the adapter is the untrained one.",
    "fewer_clusters": (
        "The {{ n | counted('held-out records') }} are {{ n_clusters | counted('independent ' ~ clusters) }}:"
        " records of one family, and near-duplicates, count as one (dataset.near_duplicates)."
    ),
    "other_machines": (
        "The training went on on another processor, or under other thread flags"
        " ({{ times | counted('times') }}): its numbers stand, but on no machine will it give these bytes"
        " again."
    ),
    "control_other_machines": (
        "The random-reward training went on on another processor, or under other thread flags."
    ),
    "control_unwatched": "The random-reward training was not watched: no alarm of it is known.",
    "control_red": "RED in the random-reward training: {{ rules | join(', ') }}.",
    "no_spread": (
        "{% if share == 1 %}All rewards of each step were equal{% else %}In"
        " {{ [99, (100 * share) | round | int] | min }} % of {{ n | counted('steps') }} all rewards were"
        " equal{% endif %}: no group held rewards that differ, so GRPO had nothing to learn from"
        "{{ ' there' if share != 1 else '' }}."
    ),
    "cut_off": (
        "{{ before | percent }} % of completions before and {{ after | percent }} % of completions after"
        " were cut off at task.max_new_tokens."
    ),
    "empty": (
        "{% for each in arms %}{{ each.n }} of {{ each.of | counted('completions') }} {{ each.arm }}"
        "{{ ' and ' if not loop.last else '' }}{% endfor %} are empty: success there says nothing of what was"
        " thought."
    ),
    "no_gold": (
        "{{ n }} of {{ of | counted('items') }} {{ 'has' if n == 1 else 'have' }} no gold: there a valid"
        " answer counts as a success."
    ),
    "prompts_cut": (
        "{{ played | capitalize }}: {{ n }} of {{ of | counted('prompts') }} {{ 'was' if n == 1 else 'were'"
        " }} cut to fit the prompt limits of the task, by up to {{ most | counted('characters') }}."
    ),
    "alarm": "{{ alarm | of_episodes(played ~ ' episodes ' ~ arm) }}",
    "alarm_in_training": "{{ alarm | of_training }}",
    "alarm_acknowledged": "{{ alarm | of_rule }} Acknowledged: {{ reason | quoted }}.",
    "alarm_did_not_ring": (
        "Acknowledged alarm {{ rule }} did not ring RED: the reason {{ reason | quoted }} answers for"
        " nothing."
    ),
    "contamination": "Contamination: {{ overlap | shared }}.",
    "of_named_data": "Of the training data that were named (train): {{ found | say }}",
    "of_secondary_suite": "Secondary suite: {{ found | say }}.",
    "looser_than_usual": (
        "Looser than usual: {% for each in limits %}{{ each.name }} {{ each.set | as_yaml }} (usual"
        " {{ each.usual | as_yaml }}){{ '; ' if not loop.last else '' }}{% endfor %}."
    ),
    "cooler": (
        "Measured at temperature {{ '%g' % measured }}"
        "{{ ', trained at %g' % trained if trained is not none else '' }}."
    ),
    "cut_before_grading": "Cut off each completion before it was graded: {{ cut | join(', ') }}.",
    "rival_noted": "Rival {{ rival }}: {{ note }}.",
    "rivals_left_out": (
        "The settings leave out what one would do instead of training: {{ rivals | join(', ') }}."
    ),
    "trained_elsewhere": (
        "Trained elsewhere. Not known: its steps and seeds, its rewards and alarms, how many others were"
        " trained and thrown away, and whether this checkpoint was chosen by the held-out items."
    ),
    "plan_before_measuring": (
        "The plan was fixed before this policy was measured here; nothing shows that it was fixed before"
        " the policy was trained."
    ),
    "how_trained": "How it was trained, in the words of whoever brought it: {{ how | on_one_line }}",
    "searched_data": (
        "Searched for held-out records: {{ files | join(', ') }}. What else it was trained on is not known."
    ),
    "no_data_named": (
        "What it was trained on was not named: whether held-out records were among it is not known."
    ),
    "whole_not_of_base": (
        "A whole model was brought, {{ model | of_whole }}, which is no fine-tune of this base ({{"
        " model.base_architecture }}"
        " with {{ '{:,}'.format(model.base_parameters) }}): what the two differ in is not training alone."
    ),
    "whole_of_other_size": (
        "A whole model was brought, {{ model | of_whole }}, of another size than the base"
        " ({{ '{:,}'.format(model.base_parameters) }}): what the two differ in is not training alone."
    ),
    "whole_like_base": (
        "A whole model was brought, {{ model | of_whole }}, as the base: that it was trained from this"
        " base is not"
        " shown."
    ),
    "other_tokenizer": (
        "Its tokenizer is another one than the base's: tokens, and limits in tokens, are not the same for"
        " both."
    ),
    "other_template": (
        "Its chat template writes {{ n }} of {{ of | counted('prompts') }} of train items otherwise than"
        " the base's: what a template does is part of the difference."
    ),
    "other_prompt_tokens": (
        "The prompt of {{ n }} of {{ of | counted('items') }} differs in tokens between before and after."
    ),
}

_RESULTS: Mapping[str, str] = {
    "plan_afterwards": (
        "The plan is assay's default, taken when the results were there: nothing shows that the metric,"
        " these items or this policy were not chosen by them. It counts as the first look at these items."
    ),
    "planned": (
        "The plan was made beforehand, on {{ made }}, sha256 {{ sha256 }}. The date is the word of whoever"
        " planned: a commit or a post that holds this digest and is older than the results shows more. How"
        " many other policies were tried is not known.{{ ' Only how many items there are was planned, not"
        " which: they may have been chosen by their results.' if not items_fixed else '' }}"
    ),
    "one_of_several": (
        "One of {{ n }} sets of results that were compared with before at a time: called better at the"
        " level {{ '%.2g' % level }} (Holm)."
    ),
    "matched_by_content": (
        "The items of before and {{ arm }} have other ids, and were matched by their content."
    ),
    "prompts_not_held": (
        "Of {{ n }} of {{ of | counted('items') }} before and {{ arm }} do not both hold the prompt: that"
        " the same id means the same question is taken on trust."
    ),
    "other_prompts": (
        "The prompt of {{ n }} of {{ of | counted('items') }} differs between before and {{ arm }}: what a"
        " template, a system message or examples do is part of the difference."
    ),
    "same_draws": (
        "All draws of {{ n }} of {{ of | counted('items') }} of {{ arm }} are one and the same text, as in"
        " greedy decoding: so many draws say no more than one."
    ),
    "draws_left_out": (
        "{{ n | counted('results') }} {{ arm }} beyond the first {{ most }} draws of an item were left out."
    ),
    "answers_not_scored": (
        "{{ n | counted('results') }} {{ arm }} have one score for {{ answers }} answers: it counts as one"
        " draw, and what the others scored is not in the file."
    ),
    "decoded_differently": (
        "The arms were decoded differently: {% for each in settings %}{{ each.name }} {{ each.before }} and"
        " {{ each.after }}{{ ', ' if not loop.last else '' }}{% endfor %}. What that does is part of the"
        " difference."
    ),
    "other_score": (
        "Results before were read from {{ before | join(', ') }}, those of {{ arm }} from"
        " {{ after | join(', ') }}: that both measure the same is taken on trust."
    ),
    "items_ask_the_same": ("{{ n }} items ask what another one asks: all that ask the same are one cluster."),
    "pooled": (
        "The {{ n }} {{ clusters }} were put together at random into {{ groups }} groups, whatever their"
        " results: the interval is a little wider for it."
    ),
}

# Why a control was not run, or what it found.
_CONTROLS: Mapping[str, str] = {
    "aa_one_draw": "one draw per item cannot be split in two; no second base run was given",
    "aa_same_draws": "the second base run repeats sampling seeds of the first: not other draws",
    "aa_not_whole": "expected {{ expected }}, found {{ found }}",
    "aa_few_clusters": "under {{ needed }} clusters nothing can be tested",
    "aa_never_flags": (
        "with {{ n | counted('clusters') }} no p can reach {{ '%g' % level }}, so nothing could ever be"
        " flagged"
    ),
    "aa_passed": "p > {{ '%g' % level }} between two sets of draws of the same policy",
    "aa_failed": "p <= {{ '%g' % level }} between two sets of draws of the same policy",
}

GROUPS: Mapping[str, Mapping[str, str]] = {
    "Reasons of a verdict": REASONS,
    "What bars a claim, of any two arms": _OF_ARMS,
    "What bars a claim of a run of the pipeline": _OF_A_RUN,
    "What bars a claim of results that were made elsewhere": _OF_RESULTS,
    "Warnings of the numbers": _NUMBERS,
    "Warnings of training and data": _TRAINING,
    "Warnings of the openings of the held-out records": _OPENINGS,
    "Warnings of results that were made elsewhere": _RESULTS,
    "The control of base against base": _CONTROLS,
}
TEXTS: Mapping[str, str] = {code: text for group in GROUPS.values() for code, text in group.items()}

KINDS: Mapping[str, str] = {
    **{code: text for code, text in {**_OF_ARMS, **_OF_A_RUN}.items() if "{" not in text},
    "other_suite": "the suite is not the one the plan names",
    "arm_not_whole": "the {{ arm }} arm is not a whole suite",
    "seeds_repeat": "draws of the {{ arm }} arm share sampling seeds",
    "other_items": "the arms hold different items",
    "random_reward_not_comparable": "the random-reward arm that the plan asks for is not comparable",
    "rival_not_played": "the rival {{ rival }} that the plan names did not play",
    "control_failed": "the control found a difference between base and base",
    "unreadable": "a file of the evidence is missing, damaged or not what it should be",
    "misgraded": "what is recorded of an episode is not what the task says of it",
    "leak": "a leak between splits: {{ overlap | shared_kind }} in common",
    "of_named_data": "{{ found | kind }}",
    "alarm_unanswered": "a red alarm of the training is not acknowledged",
    "other_opening": "openings.json is about another opening than this claim",
    "openings_lost": "how often the held-out records were opened is not known",
    "control_stopped": "the random-reward training ended before its last step",
    **dict.fromkeys(
        ("control_of_other_training", "control_of_other_policy", "control_of_other_step"),
        "the random-reward arm is not the control of this training",
    ),
    "rival_of_other_policy": "a rival was played by another policy than the base",
    "suite_of_other_policy": "another policy played a secondary suite",
    "no_score": "results of the {{ arm }} arm have no score",
    "inspect_not_whole": "an inspect log is not whole",
    "items_in_one_arm": "the arms hold different items",
    "other_questions": "items with one id ask different things",
    "other_draws": "the arms hold different numbers of draws",
    "other_clusters": "items lie in other clusters",
    "not_as_planned": "{{ what }}: not as planned",
}
