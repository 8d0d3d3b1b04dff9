#if Server
  internal import NIOCore

  #if canImport(Darwin)
    internal import Darwin
  #elseif canImport(Glibc)
    internal import Glibc
  #elseif canImport(Musl)
    internal import Musl
  #elseif canImport(Android)
    internal import Android
  #endif

  enum PeerUser {
    #if !canImport(Darwin)
      /// `ucred` of unix(7), which the C library declares only with extensions.
      private struct Credentials: BitwiseCopyable {
        var process: Int32
        var user: UInt32
        var group: UInt32
      }
    #endif

    static func number(of channel: any Channel) async -> UInt32? {
      guard let socket = channel as? any SocketOptionProvider else { return nil }
      #if canImport(Darwin)
        // SOL_LOCAL and LOCAL_PEERCRED of <sys/un.h>.
        let credentials: xucred? = try? await socket.unsafeGetSocketOption(level: .init(0), name: .init(1)).get()
        return credentials?.cr_uid
      #else
        let credentials: Credentials? = try? await socket.unsafeGetSocketOption(
          level: .init(SOL_SOCKET), name: .init(SO_PEERCRED)
        ).get()
        return credentials?.user
      #endif
    }
  }
#endif
