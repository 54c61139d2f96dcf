SELECT
  auction, bidder, price, channel,
  coalesce(
    map {'Apple': '0', 'Google': '1', 'Facebook': '2', 'Baidu': '3'}[channel],
    nullif(regexp_extract(url, '(&|^)channel_id=([^&]*)', 2), '')
  ) AS channel_id
FROM bid
WHERE channel_id IS NOT NULL;
