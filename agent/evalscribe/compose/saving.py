"""What a cascade saved: computed from what is stored, so that it does not change when it is told again."""

from collections.abc import Mapping, Sequence

from evalscribe.model.cascade import STAGES, CascadeSaving, JudgeShare
from evalscribe.model.chat import Usage
from evalscribe.model.finding import Finding, Verdict
from evalscribe.model.protocols import Estimate


def was_spared(verdict: Verdict) -> bool:
    """Whether the expensive model was not asked, because an earlier stage decided."""
    return verdict.stage in ("rules", "tag") and not verdict.provisional and verdict.before == Usage()


def cascade_saving(findings: Sequence[Finding], spared: Mapping[str, Estimate], against: str) -> CascadeSaving:
    """`spared`: by group, what the expensive model `against` is likely to have taken where it was not asked."""
    priced = all(estimate.cost_usd is not None for estimate in spared.values())
    spent = sum((finding.verdict.usage for finding in findings), Usage())
    # Where the expensive model was asked, it was asked the same without a cascade: only what came before is extra.
    asked = (finding.judged.before for finding in findings if finding.judged and not was_spared(finding.judged))
    cheap = (finding.verdict.usage for finding in findings if finding.group in spared)
    extra = sum((*asked, *cheap), Usage())
    kept = sum(spared.values(), Estimate())
    saved = (kept.cost_usd or 0.0) - extra.cost_usd if priced else _tokens(kept) - _tokens(extra)
    return CascadeSaving(
        decided=_decided(findings),
        unit="usd" if priced else "tokens",
        spent=spent.cost_usd if priced else _tokens(spent),
        saved=max(0.0, saved),
        against=against,
    )


def _tokens(what: Usage | Estimate) -> float:
    return float(what.input_tokens + what.output_tokens)


def _decided(findings: Sequence[Finding]) -> tuple[JudgeShare, ...]:
    """By judge, in the order of the stages."""
    order = (*STAGES, None)
    judged = sorted((f for f in findings if f.judged), key=lambda f: order.index(f.judged.stage if f.judged else None))
    counts: dict[str, int] = {}
    for finding in judged:
        counts[finding.verdict.judge] = counts.get(finding.verdict.judge, 0) + len(finding.evals)
    return tuple(JudgeShare(judge=judge, evals=evals) for judge, evals in counts.items())
