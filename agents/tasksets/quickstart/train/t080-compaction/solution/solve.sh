#!/bin/bash
set -e
cd /app
echo dark > record.txt
echo river > report.txt
echo radio > copy.txt
