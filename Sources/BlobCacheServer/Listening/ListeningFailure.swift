#if Server
  internal import NIOCore
  public import SystemPackage

  /// Why a server does not listen.
  public enum ListeningFailure {
    /// The system's reason; nil for an error of another kind.
    public static func errno(of error: any Error) -> Errno? {
      (error as? IOError).map { Errno(rawValue: $0.errnoCode) }
    }
  }
#endif
