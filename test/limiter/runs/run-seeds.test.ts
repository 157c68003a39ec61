import {it} from 'vitest'
import {describeOnBoth} from '../../helpers/memory-table/use-memory-table.js'
import {playSeeds} from './run-seeds.js'

/** More with ZAEL_RUN_SEEDS; from another one with ZAEL_RUN_SEED. */
const COUNT = Number(process.env.ZAEL_RUN_SEEDS ?? 20)
const FROM = Number(process.env.ZAEL_RUN_SEED ?? 1)

describeOnBoth('runs of random processes', {timeout: 3_600_000}, table => {
  it('S14 S6 add up, whatever is lost, repeated, late or killed', () => playSeeds(table, FROM, COUNT))
})
