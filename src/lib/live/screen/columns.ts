export interface PanelColumn<K extends string> {
  readonly key: K
  readonly title: string
  readonly width: number
}

export interface ColumnRule<K extends string> {
  readonly key: K
  readonly title: string
  readonly least: number
  /** Minimum screen width; default: any. */
  readonly from?: number
}

export interface ColumnPlan<K extends string, R extends ColumnRule<K> = ColumnRule<K>> {
  /** From left to right. Widths do not depend on the content, so columns never shift. */
  readonly rules: readonly R[]
  /** Most important first. */
  readonly importance: readonly K[]
  /** Columns that get the remaining width, in turn, each up to a width. */
  readonly growth: readonly (readonly [K, width: number])[]
  readonly margin: number
}

const GAP = 1

/** The columns for a screen width. With margin and gaps they never exceed it. */
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
