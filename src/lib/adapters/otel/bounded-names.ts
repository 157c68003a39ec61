/** Stands for all names beyond the bound; no resource may be called so. */
const OTHER = '_other_'

/** A name as a label: itself for the first `most` names, `_other_` for all further ones. */
export type NameLabel = (name: string) => string

/** Time series are kept for as long as the process lives, so there must be an end to them. */
export function boundedNames(most: number): NameLabel {
  const known = new Set<string>()
  return name => {
    if (known.has(name)) return name
    if (known.size >= most) return OTHER
    known.add(name)
    return name
  }
}
