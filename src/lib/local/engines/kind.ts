export type EngineName = 'dynoxide' | 'dynamodb-local' | 'docker'

/** Builds the command line (program first) that serves on a loopback port; without a data folder the data is in memory. */
type EngineCommand = (port: number, dataDir: string | undefined) => readonly string[]

export interface LocatedEngine {
  readonly command: EngineCommand
  readonly version: string
}

export interface EngineKind {
  readonly name: EngineName
  /**
   * Printed on stderr once the socket is bound. An HTTP response alone does not prove that our engine is up: on a port that
   * is in use it comes from the process that already listens there.
   */
  readonly announcement: string
  /** The file in the data folder that holds the tables, in SQLite's format. */
  readonly dataFile: string
  /** Prepares an empty data folder before the engine opens it for the first time; changes nothing in a used one. */
  prepare?(dataDir: string): Promise<void>
  /** Finds what the engine needs; throws a `ZaelError` that names what is missing. */
  locate(): Promise<LocatedEngine>
}
