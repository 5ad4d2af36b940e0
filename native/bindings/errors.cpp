#include "bindings/errors.h"

#include <new>

#include "support/error.h"

namespace isopro::bindings {
namespace {

// Takes no memory of its own: what it reports may be that there is none.
Napi::Error withCode(Napi::Env env, ErrorCode code, const char* message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, codeName(code)));
  return error;
}

}  // namespace

Napi::Error toJsError(Napi::Env env, std::exception_ptr failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return withCode(env, error.code(), error.what());
  } catch (const Napi::Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return withCode(env, ErrorCode::outOfMemory, "the system gave no more memory");
  } catch (const std::exception& error) {
    return withCode(env, ErrorCode::nativeFailure, error.what());
  } catch (...) {
    return withCode(env, ErrorCode::nativeFailure, "an exception of unknown type");
  }
}

}  // namespace isopro::bindings
