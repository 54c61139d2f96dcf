SELECT auction, bidder, price, channel, url, "dateTime", extra
FROM bid
QUALIFY "dateTime" = max("dateTime") OVER (PARTITION BY bidder, auction);
