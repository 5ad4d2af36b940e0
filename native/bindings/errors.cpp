#include "bindings/errors.h"

#include <new>
#include <string>

#include "support/error.h"

namespace isopro::bindings {
namespace {

Napi::Error withCode(Napi::Env env, const std::string& code, const std::string& message) {
  Napi::Error error = Napi::Error::New(env, message);
  error.Set("code", Napi::String::New(env, code));
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
    return withCode(env, "OUT_OF_MEMORY", "the system gave no more memory");
  } catch (const std::exception& error) {
    return withCode(env, "NATIVE_FAILURE", error.what());
  } catch (...) {
    return withCode(env, "NATIVE_FAILURE", "an exception of unknown type");
  }
}

}  // namespace isopro::bindings
