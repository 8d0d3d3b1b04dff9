extension Duration {
  /// The time to live of a blob that does not expire: only a removal or a limit takes it.
  public static var never: Duration { .seconds(Int64.max) }
}
