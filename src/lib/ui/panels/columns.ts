/** A column as it is drawn. */
export interface PanelColumn<K extends string> {
  readonly key: K
  readonly title: string
  readonly width: number
}

/** One that can be drawn. */
export interface ColumnRule<K extends string> {
  readonly key: K
  readonly title: string
  readonly least: number
  /** The narrowest screen that shows it; any unless said. */
  readonly from?: number
}

/** What a list can show, and what it shows where there is not room for all. */
export interface ColumnPlan<K extends string, R extends ColumnRule<K> = ColumnRule<K>> {
  /** From left to right. Widths are fixed, so that nothing jumps when a number changes. */
  readonly rules: readonly R[]
  /** Who comes first. */
  readonly importance: readonly K[]
  /** Who gets what is left over, in turn, and up to which width. */
  readonly growth: readonly (readonly [K, width: number])[]
  /** Characters before the first column. */
  readonly margin: number
}

const GAP = 1

/** The columns of a plan on a screen. Together with margin and gaps they are never wider than it. */
export function fitColumns<K extends string, R extends ColumnRule<K>>(
  {rules, importance, growth, margin}: ColumnPlan<K, R>,
  screenWidth: number,
): (R & PanelColumn<K>)[] {
  const room = screenWidth - margin
  let chosen: readonly R[] = []
  for (const key of importance) {
    const more = rules.filter(rule => chosen.includes(rule) || (rule.key === key && screenWidth >= (rule.from ?? 0)))
    if (widthOf(more.map(({least}) => least)) <= room) chosen = more
  }
  const widths = new Map(chosen.map(({key, least}) => [key, least]))
  let spare = room - widthOf([...widths.values()])
  for (const [key, width] of growth) {
    const before = widths.get(key) ?? width
    const more = Math.max(0, Math.min(width - before, spare))
    if (more > 0) widths.set(key, before + more)
    spare -= more
  }
  return chosen.map(rule => ({...rule, width: widths.get(rule.key) ?? 0}))
}

function widthOf(widths: readonly number[]): number {
  return widths.reduce((sum, width) => sum + width, 0) + GAP * Math.max(0, widths.length - 1)
}
