/** The DynamoDB-compatible engines that can run on this machine without Docker or an account, in order of preference. */
export type EngineName = 'dynoxide' | 'dynamodb-local' | 'docker'

/** Builds the command line (program first) that serves on one loopback port; without a data folder it keeps all in memory. */
export type EngineCommand = (port: number, dataDir: string | undefined) => readonly string[]

/** An engine that was found on this machine. */
export interface LocatedEngine {
  readonly command: EngineCommand
  readonly version: string
}

/** What `startEngine` has to know about one engine. */
export interface EngineKind {
  readonly name: EngineName
  /**
   * Printed on stderr once the socket is bound. An answer alone does not prove that our engine is up: on a taken port
   * it comes from the stranger who holds it.
   */
  readonly announcement: string
  /** The file in the data folder that holds the tables, in SQLite's format. */
  readonly dataFile: string
  /** Makes an empty data folder ready before the engine first opens it; changes nothing in a used one. */
  prepare?(dataDir: string): Promise<void>
  /** Finds what the engine needs; throws a `ZaelError` that says what is missing. */
  locate(): Promise<LocatedEngine>
}
