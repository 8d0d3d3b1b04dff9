/// A setting of an engine that cannot be used, and what to write instead. It tells no secret.
public struct RemoteSettingError: Error, Sendable, CustomStringConvertible {
  /// The setting, such as `region`, as `RemoteURL` calls it.
  public let setting: String
  /// What is wrong with it.
  public let message: String

  init(_ setting: String, _ message: String) {
    self.setting = setting
    self.message = message
  }

  public var description: String { "\(setting): \(message)" }
}
