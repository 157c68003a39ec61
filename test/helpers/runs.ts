/** How often a costly property is tried: `full` with `ZAEL_TEST_SIZE=full`, and a quarter of it otherwise. */
export const runs = (full: number): number => (process.env.ZAEL_TEST_SIZE === 'full' ? full : Math.ceil(full / 4))
