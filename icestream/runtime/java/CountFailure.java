package icestream;

import org.apache.spark.sql.api.java.UDF2;

/** The function icestream_failed(object, failed): counts a failure for an object. Its value is always NULL. */
public final class CountFailure implements UDF2<Integer, Boolean, Object> {
  private final FailureCounts counts;

  public CountFailure(FailureCounts counts) {
    this.counts = counts;
  }

  @Override
  public Object call(Integer object, Boolean failed) {
    if (Boolean.TRUE.equals(failed)) {
      counts.add(object);
    }
    return null;
  }
}
