import Foundation
import Posix
import SystemPackage
import Testing

#if canImport(Glibc)
  import Glibc
#elseif canImport(Musl)
  import Musl
#elseif canImport(Android)
  import Android
#elseif canImport(Darwin)
  import Darwin
#endif

@Suite struct CredentialsTests {
  @Test func aProcessBelongsToItsGroupsAndToNoOther() {
    var groups = [gid_t](repeating: 0, count: max(0, Int(getgroups(0, nil))))
    groups = Array(groups.prefix(Int(getgroups(CInt(groups.count), &groups))))
    for group in groups + [getegid()] { #expect(Credentials.belong(to: GroupID(rawValue: group))) }
    let strange = (40_000...gid_t.max).first { $0 != getegid() && !groups.contains($0) }
    #expect(strange.map { Credentials.belong(to: GroupID(rawValue: $0)) } == false)
  }
}
