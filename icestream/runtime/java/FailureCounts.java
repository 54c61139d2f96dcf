package icestream;

import java.util.Collections;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.util.AccumulatorV2;

/** How often expressions failed, by the number of the object that they belong to. */
public final class FailureCounts extends AccumulatorV2<Integer, Map<Integer, Long>> {
  private final Map<Integer, Long> counts = Collections.synchronizedMap(new TreeMap<>());

  @Override
  public boolean isZero() {
    return counts.isEmpty();
  }

  @Override
  public FailureCounts copy() {
    FailureCounts copy = new FailureCounts();
    copy.merge(this);
    return copy;
  }

  @Override
  public void reset() {
    counts.clear();
  }

  @Override
  public void add(Integer object) {
    counts.merge(object, 1L, Long::sum);
  }

  @Override
  public void merge(AccumulatorV2<Integer, Map<Integer, Long>> other) {
    other.value().forEach((object, count) -> counts.merge(object, count, Long::sum));
  }

  @Override
  public Map<Integer, Long> value() {
    synchronized (counts) {
      return new TreeMap<>(counts);
    }
  }

  /** All counts as one text, "7=2,9=1": one call from Python. */
  public String describe() {
    StringBuilder text = new StringBuilder();
    value().forEach((object, count) -> text.append(text.length() == 0 ? "" : ",").append(object).append('=').append(count));
    return text.toString();
  }
}
