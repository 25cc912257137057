"""Which of the words carries the star? A reward function as TRL calls it, and a player mostly wrong."""


def reward(prompts, completions, answer, **kwargs):
    """Pay 1 for the word with the star, 0.1 for another of the words shown."""
    said = [completion.strip() for completion in completions]
    shown = [prompt.replace("*", "").split()[1:] for prompt in prompts]
    rows = zip(said, answer, shown, strict=True)
    return [1.0 if one == right else 0.1 * (one in words) for one, right, words in rows]


def hasty(prompt, answer, rng):
    """Say the first word more often than any other, and the right one two times in five."""
    words, chance = prompt.replace("*", "").split()[1:], rng.uniform()
    if chance < 0.5:
        return answer if chance < 0.2 else words[0]
    return words[rng.integers(len(words))]
