"""regard evaluate RUN: how well it predicts a text."""

from dataclasses import dataclass

from regard.commands.parsing import EditFile, RunPath, parse
from regard.commands.printing import print_json, print_lines
from regard.errors import UserError
from regard.models.translation import Translator
from regard.runs.folder import Run
from regard.runs.looking import under
from regard.runs.material import read_pairs
from regard.runs.translations import against, evaluate_translations
from regard.runs.using import cached, evaluate, mix


@dataclass(frozen=True, kw_only=True)
class Evaluate:
    """Measure a run on a text (docs/measuring.md says how)."""

    run: RunPath
    text: tuple[str, ...] = ()
    """The text, all of it. Without it, the run's own test or validation text."""
    stride: int | None = None
    """How far windows move on, for models with a bounded context; the context itself means no overlap."""
    cache: bool = False
    """Put a neural cache on the model: words that followed like states before are likelier now."""
    cache_size: int | None = None
    """How many states it remembers (2000)."""
    mix: str | None = None
    """Another run that reads the same tokens: the two are interpolated."""
    valid: tuple[str, ...] = ()
    """The text on which the weight of --mix, or a cache's numbers, are chosen (a cache: the run's own validation text)."""
    source: str | None = None
    """A translator's sentences; without files, those held out when it was trained."""
    target: str | None = None
    """Their right translations."""
    pairs: str | None = None
    """Both in one file instead: source TAB target."""
    beam: int | None = None
    """How many hypotheses a translator keeps (5)."""
    against: str | None = None
    """Another translator's run: how far it is ahead on the same sentences, and how often that would happen by chance."""
    edit: EditFile = None
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Evaluate, arguments, "evaluate")
    run, extra = under(options.run, options.edit), {}
    if isinstance(run.model, Translator) or options.source or options.target or options.pairs:
        _evaluate_translator(options, run)
        return
    if options.against is not None or options.beam is not None:
        raise UserError("--against and --beam are for translators; regard compare ranks language models")
    if options.cache_size is not None and not options.cache:
        raise UserError("--cache-size goes with --cache")
    if options.mix is not None:
        if options.cache:
            raise UserError("--mix and --cache do not go together")
        if not options.valid:
            raise UserError("--mix chooses its weight on validation text: say which with --valid FILE")
        run = mix(run, options.mix, options.valid)
        extra = {"weight": run.model.weight}
    elif options.cache:
        run = cached(run, 2000 if options.cache_size is None else options.cache_size, options.valid)
    elif options.valid:
        raise UserError("--valid goes with --mix or --cache; name the text to measure with --text FILE")
    result = evaluate(run, options.text, stride=options.stride).to_json() | extra
    if options.json:
        print_json(result)
    else:
        print_lines({name: value for name, value in result.items() if name != "zero_tokens" or value})


def _evaluate_translator(options: Evaluate, run: Run) -> None:
    if options.text or options.mix or options.cache or options.cache_size is not None or options.stride or options.valid:
        others = "--text, --valid, --mix, --cache and --stride are for language models"
        raise UserError(f"a translator is measured on --source and --target, or --pairs; {others}")
    pairs, beam = read_pairs(options.source, options.target, options.pairs), options.beam if options.beam is not None else 5
    result = evaluate_translations(run, pairs, beam=beam).to_json()
    found = {} if options.against is None else against(run, options.against, pairs, beam=beam)
    if options.json:
        print_json(result | ({"against": {name: vars(one) for name, one in found.items()}} if found else {}))
        return
    print_lines({name: value for name, value in result.items() if name != "signatures"})
    for name, signature in result["signatures"].items():
        print(f"{name}: {signature}")
    for name, one in found.items():
        print(f"{name} of {options.against}: {one.other:.2f}, {one.difference:+.2f} (p = {one.p_value:.3f}, paired bootstrap)")
